// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

#include <windows.h>
// after windows.h
#include <bcrypt.h>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "failure.hpp"
#include "io/win32/file.hpp"
#include "io/win32/os.hpp"

namespace cli {
namespace {

bool is_console(DWORD which) {
  DWORD mode = 0;
  return GetConsoleMode(GetStdHandle(which), &mode) != FALSE;
}

std::size_t columns_of(DWORD which) {
  constexpr std::size_t kUsual = 80;
  CONSOLE_SCREEN_BUFFER_INFO info{};
  const char* const given = std::getenv("COLUMNS");
  const int columns = given == nullptr ? 0 : std::atoi(given);
  if (columns > 0) return static_cast<std::size_t>(columns);
  if (GetConsoleScreenBufferInfo(GetStdHandle(which), &info) == FALSE) return kUsual;
  return static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left + 1);
}

struct Job {
  const std::function<void()>& work;
  std::exception_ptr thrown;
};

DWORD WINAPI run_job(void* given) {
  Job& job = *static_cast<Job*>(given);
  try {
    job.work();
  } catch (...) {
    job.thrown = std::current_exception();
  }
  return 0;
}

std::atomic<bool> caught_interruption{false};
int guards = 0;

// Windows calls this on a separate thread. If the window is being closed or the system shuts down, it ends the process
// when this returns, or after five seconds.
BOOL WINAPI catch_interruption(DWORD event) {
  const bool again = caught_interruption.exchange(true);
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE);
  return again ? FALSE : TRUE;  // FALSE: the default handler ends the process
}

DWORD attributes_of(const std::string& path) { return GetFileAttributesW(st::io::native_path(path).c_str()); }

std::string os_error_text(DWORD error) { return st::os_error_text(static_cast<int>(error)); }

}  // namespace

// ---- the process ----------------------------------------------------------------------------------------------------

void on_stack_of(std::size_t bytes, const std::function<void()>& work) {
  Job job{work, nullptr};
  HANDLE const thread = CreateThread(nullptr, bytes, run_job, &job, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr);
  if (thread == nullptr) throw Failure{kUnreadable, "cannot start a thread: " + os_error_text(GetLastError())};
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

// The console keeps this code page for later programs, but UTF-8 suits them, too.
void prepare_process() {
  SetConsoleOutputCP(CP_UTF8);
  // Read and write the same bytes as on other systems: no carriage returns.
  _setmode(_fileno(stdin), _O_BINARY);
  _setmode(_fileno(stdout), _O_BINARY);
  _setmode(_fileno(stderr), _O_BINARY);
}

// Ignores the arguments of main(), because the system's code page may lack some of their characters.
std::vector<std::string> arguments(int argc, char** argv) {
  int count = 0;
  wchar_t** const given = CommandLineToArgvW(GetCommandLineW(), &count);
  if (given == nullptr) return {argv, argv + argc};
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    // Never replace invalid characters: the result might be another file's name.
    std::optional<std::string> text = st::io::to_utf8(given[i]);
    if (!text) throw Failure{kUsage, "argument " + std::to_string(i) + " is not valid UTF-16"};
    texts.push_back(std::move(*text));
  }
  LocalFree(given);
  return texts;
}

// ---- terminals and pipes --------------------------------------------------------------------------------------------

bool output_is_terminal() { return is_console(STD_OUTPUT_HANDLE); }
bool error_is_terminal() { return is_console(STD_ERROR_HANDLE); }

std::size_t output_columns() { return columns_of(STD_OUTPUT_HANDLE); }
std::size_t error_columns() { return columns_of(STD_ERROR_HANDLE); }

// The console shows colors only in a mode that this program does not set.
bool output_has_colors() { return false; }

bool is_closed_pipe(int os_error) { return os_error == ERROR_BROKEN_PIPE || os_error == ERROR_NO_DATA; }

bool readers_may_leave() { return true; }

// ---- paths ----------------------------------------------------------------------------------------------------------

bool is_folder(const std::string& path) {
  const DWORD attributes = attributes_of(path);
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

std::string file_name(const std::string& path) { return path.substr(path.find_last_of("/\\:") + 1); }

std::optional<st::io::Identity> identity_of(const std::string& path) {
  if (path == "/dev/stdout") return st::io::identity_of(GetStdHandle(STD_OUTPUT_HANDLE));
  if (path == "/dev/stderr") return st::io::identity_of(GetStdHandle(STD_ERROR_HANDLE));
  const st::io::Handle file =
      st::io::open_existing(st::io::native_path(path), FILE_READ_ATTRIBUTES, FILE_FLAG_BACKUP_SEMANTICS);
  return file ? st::io::identity_of(file.get()) : std::nullopt;
}

bool is_stream(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || st::io::native_path(path).starts_with(L"\\\\.\\");
}

bool is_terminal(const std::string& path) {
  return (path == "/dev/stdout" && output_is_terminal()) || (path == "/dev/stderr" && error_is_terminal());
}

std::FILE* open_to_read(const std::string& path) { return _wfopen(st::io::native_path(path).c_str(), L"rb"); }

std::optional<st::io::Identity> state_of(std::FILE* file) {
  auto* const handle = reinterpret_cast<HANDLE>(_get_osfhandle(_fileno(file)));
  return GetFileType(handle) == FILE_TYPE_DISK ? st::io::identity_of(handle) : std::nullopt;
}

bool exists(const std::string& path) { return attributes_of(path) != INVALID_FILE_ATTRIBUTES; }

bool make_folder(const std::string& path) {
  if (CreateDirectoryW(st::io::native_path(path).c_str(), nullptr) != FALSE) return true;
  const DWORD error = GetLastError();
  if (error != ERROR_ALREADY_EXISTS) throw Failure{kUnreadable, path + ": " + os_error_text(error)};
  return false;
}

void remove_file(const std::string& path) { DeleteFileW(st::io::native_path(path).c_str()); }
void remove_folder(const std::string& path) { RemoveDirectoryW(st::io::native_path(path).c_str()); }

// ---- interruptions --------------------------------------------------------------------------------------------------

InterruptGuard::InterruptGuard() {
  if (guards++ == 0) SetConsoleCtrlHandler(catch_interruption, TRUE);
}

InterruptGuard::~InterruptGuard() {
  if (--guards == 0) SetConsoleCtrlHandler(catch_interruption, FALSE);
}

bool is_interrupted() { return caught_interruption; }

void end_by_closed_pipe() {}

void end_if_interrupted() {
  if (caught_interruption) ExitProcess(static_cast<UINT>(STATUS_CONTROL_C_EXIT));
}

// ---- digests --------------------------------------------------------------------------------------------------------

struct Digest::State {
  BCRYPT_ALG_HANDLE algorithm = nullptr;
  BCRYPT_HASH_HANDLE hash = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (hash != nullptr) BCryptDestroyHash(hash);
    if (algorithm != nullptr) BCryptCloseAlgorithmProvider(algorithm, 0);
  }
};

namespace {

void expect(NTSTATUS status) {
  if (status < 0) throw Failure{kDefect, "Windows cannot compute this digest"};  // for example by policy
}

}  // namespace

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const wchar_t* const name = kind == DigestKind::sha1 ? BCRYPT_SHA1_ALGORITHM : BCRYPT_SHA256_ALGORITHM;
  expect(BCryptOpenAlgorithmProvider(&state_->algorithm, name, nullptr, 0));
  expect(BCryptCreateHash(state_->algorithm, &state_->hash, nullptr, 0, nullptr, 0, 0));
}

Digest::~Digest() = default;

void Digest::add(const void* bytes, std::size_t n) {
  auto* const data = static_cast<unsigned char*>(const_cast<void*>(bytes));  // BCryptHashData only reads it
  expect(BCryptHashData(state_->hash, data, static_cast<ULONG>(n), 0));
}

std::vector<unsigned char> Digest::finish() {
  DWORD size = 0;
  ULONG used = 0;
  auto* const place = reinterpret_cast<unsigned char*>(&size);
  expect(BCryptGetProperty(state_->algorithm, BCRYPT_HASH_LENGTH, place, sizeof size, &used, 0));
  std::vector<unsigned char> bytes(size);
  expect(BCryptFinishHash(state_->hash, bytes.data(), size, 0));
  return bytes;
}

}  // namespace cli
