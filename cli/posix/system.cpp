// SPDX-License-Identifier: Apache-2.0
#include "system.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "failure.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace cli {
namespace {

// If a standard descriptor is closed, the next file opened would get its number, and receive the output meant for it.
void keep_standard_descriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

std::size_t columns_of(int descriptor) {
  constexpr std::size_t kUsual = 80;
  struct winsize size {};
  const char* const given = std::getenv("COLUMNS");
  const int columns = given == nullptr ? 0 : std::atoi(given);
  if (columns > 0) return static_cast<std::size_t>(columns);
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

struct Job {
  const std::function<void()>& work;
  std::exception_ptr thrown;
};

void* run_job(void* given) {
  Job& job = *static_cast<Job*>(given);
  try {
    job.work();
  } catch (...) {
    job.thrown = std::current_exception();
  }
  return nullptr;
}

// The signals that end a process by default, except those that report program errors.
constexpr std::array kSignals{SIGALRM, SIGHUP,  SIGINT,  SIGPIPE,   SIGPROF, SIGQUIT,
                              SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU};

std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);
int guards = 0;

extern "C" void catch_signal(int signal) { caught_signal = signal; }

// Returns the N of /dev/fd/N or an equivalent path, or -1.
int descriptor_of(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string number = path.substr(folder.size());
    const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
    const bool leading_zero = number.size() > 1 && number[0] == '0';
    if (digits && !leading_zero && !number.empty() && number.size() <= 7) return std::stoi(number);
  }
  return -1;
}

bool find_status(const std::string& path, struct stat& status) {
  const int descriptor = descriptor_of(path);
  return (descriptor >= 0 ? fstat(descriptor, &status) : st::io::fresh_status(path.c_str(), status)) == 0;
}

}  // namespace

// ---- the process ----------------------------------------------------------------------------------------------------

void on_stack_of(std::size_t bytes, const std::function<void()>& work) {
  constexpr std::size_t kPages = std::size_t{64} << 10;  // some systems need whole pages, which are at most this large
  Job job{work, nullptr};
  pthread_t thread{};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, (bytes / kPages + 1) * kPages);
  if (error == 0) error = pthread_create(&thread, &attributes, run_job, &job);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw Failure{kUnreadable, std::string("cannot start a thread: ") + std::strerror(error)};
  pthread_join(thread, nullptr);
  if (job.thrown) std::rethrow_exception(job.thrown);
}

void prepare_process() {
  keep_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit is an error, and does not end the process
}

std::vector<std::string> arguments(int argc, char** argv) { return {argv, argv + argc}; }

// ---- terminals and pipes --------------------------------------------------------------------------------------------

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::size_t output_columns() { return columns_of(STDOUT_FILENO); }
std::size_t error_columns() { return columns_of(STDERR_FILENO); }

bool output_has_colors() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool wanted = refused == nullptr || *refused == '\0';
  return wanted && output_is_terminal() && terminal != nullptr && std::string_view(terminal) != "dumb";
}

bool is_closed_pipe(int os_error) { return os_error == EPIPE; }

bool readers_may_leave() {
  struct sigaction action {};
  return sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_IGN;
}

// ---- paths ----------------------------------------------------------------------------------------------------------

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::optional<st::io::Identity> identity_of(const std::string& path) {
  struct stat status {};
  if (!find_status(path, status)) return std::nullopt;
  return st::io::identity_of(status);
}

bool is_stream(const std::string& path) {
  struct stat status {};
  if (descriptor_of(path) >= 0) return true;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool is_terminal(const std::string& path) {
  struct stat status {};
  if (const int descriptor = descriptor_of(path); descriptor >= 0) return isatty(descriptor) == 1;
  if (stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  const int opened = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  const bool terminal = opened >= 0 && isatty(opened) == 1;
  if (opened >= 0) close(opened);
  return terminal;
}

std::FILE* open_to_read(const std::string& path) { return std::fopen(path.c_str(), "rb"); }

std::optional<st::io::Identity> state_of(std::FILE* file) {
  struct stat status {};
  if (st::io::fresh_status(fileno(file), status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return st::io::identity_of(status);
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

bool make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return true;
  if (errno != EEXIST) throw Failure{kUnreadable, path + ": " + std::strerror(errno)};
  return false;
}

void remove_file(const std::string& path) { unlink(path.c_str()); }
void remove_folder(const std::string& path) { rmdir(path.c_str()); }

// ---- interruptions --------------------------------------------------------------------------------------------------

// Signals that the parent process ignores stay ignored, for example SIGHUP under nohup.
InterruptGuard::InterruptGuard() {
  if (guards++ > 0) return;
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = catch_signal;
    // A second write to a closed standard error is not a second interruption.
    action.sa_flags = static_cast<int>(signal == SIGPIPE ? SA_RESTART : SA_RESTART | SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  if (--guards > 0) return;
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == catch_signal) std::signal(signal, SIG_DFL);
  }
}

bool is_interrupted() { return caught_signal != 0; }

void end_by_closed_pipe() { caught_signal = SIGPIPE; }

void end_if_interrupted() {
  if (caught_signal == 0) return;
  std::signal(caught_signal, SIG_DFL);
  raise(caught_signal);
}

// ---- digests --------------------------------------------------------------------------------------------------------

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void expect(bool good) {
  if (!good) throw Failure{kDefect, "OpenSSL cannot compute this digest"};  // for example if a policy forbids SHA-1
}

}  // namespace

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* const algorithm = kind == DigestKind::sha1 ? EVP_sha1() : EVP_sha256();
  expect(state_->context != nullptr && EVP_DigestInit_ex(state_->context, algorithm, nullptr) == 1);
}

Digest::~Digest() = default;

void Digest::add(const void* bytes, std::size_t n) { expect(EVP_DigestUpdate(state_->context, bytes, n) == 1); }

std::vector<unsigned char> Digest::finish() {
  std::vector<unsigned char> bytes(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  expect(EVP_DigestFinal_ex(state_->context, bytes.data(), &size) == 1);
  bytes.resize(size);
  return bytes;
}

}  // namespace cli
