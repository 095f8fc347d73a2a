// Downloads a model into a folder.
//
// All files are opened first, which checks their headers. Each file is then one stream of bytes, and several files are
// downloaded at the same time. The bytes go to parts in FOLDER/.safetensors-fetch. A part only grows at its end, so its
// length is all that a later run needs to know. A record next to it says which version of the file it is a part of: if
// the server has another version, the part starts over. When all parts are complete and checked, they get their names,
// the index last.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "failure.hpp"
#include "http/open_url.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"
#include "json.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "remote.hpp"
#include "remote/environment.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr const char* kPartsFolder = ".safetensors-fetch";
constexpr std::size_t kMostDownloads = 8;  // at the same time
constexpr auto kProgressEvery = std::chrono::milliseconds(100);

using st::http::RemoteFile;

[[noreturn]] void fail_on_file(const std::string& path, int error = errno) {
  throw Failure{kUnreadable, path + ": " + std::strerror(error)};
}

st::io::Descriptor open_or_fail(const std::string& path, int flags) {
  st::io::Descriptor file = st::io::open_file(AT_FDCWD, path.c_str(), flags, 0666);
  if (!file) fail_on_file(path);
  return file;
}

void sync_or_fail(const std::string& path, const st::io::Descriptor& file) {
  if (const int error = st::io::sync_now(file.get()); error != 0 && error != EINVAL && error != ENOTSUP) {
    fail_on_file(path, error);
  }
}

// ---- what to download

struct FetchedFile {
  std::shared_ptr<RemoteFile> remote;
  bool is_index = false;
  std::string path;         // in the folder
  std::string part;         // path of its part
  std::string record;       // path of its record
  std::uint64_t begin = 0;  // length of the part when this run begins
  bool is_there = false;    // an earlier run has completed it

  std::uint64_t size() const { return remote->size(); }
};

std::string sha256_of(const std::string& text) {
  Digest digest(DigestKind::sha256);
  digest.add(text.data(), text.size());
  return hex(digest.finish());
}

// Files of several URLs may have the same ETag: many servers make it of the time and the size. So both the URL and the
// end of its redirects count. Either may be signed, and then differs at each run: the query and the redirects do not
// count if the server states a digest.
std::string version_text(const FetchedFile& file) {
  const st::http::Version& version = file.remote->version();
  const bool has_digest = !version.sha256.empty();
  return json_text({{"url", file.remote->shown()},
                    {"query", has_digest ? "" : sha256_of(file.remote->query())},
                    {"target", has_digest || version.has_hash_as_etag() ? "" : version.origin + version.path},
                    {"size", version.size},
                    {"etag", version.etag},
                    {"last_modified", version.last_modified},
                    {"sha256", version.sha256}});
}

// The record of a complete file also contains the time of its last change. If a program edits the file, it no longer
// counts as the server's.
std::string change_text(const st::io::Identity& state) {
  return formatted("{}.{:09}", state.modified[0], state.modified[1]);
}

void write_record(const FetchedFile& file, const std::string& change) {
  const std::string text = version_text(file) + "\n" + change + "\n";
  OutputFile out(file.record, /*replace=*/true);
  out.write(text.data(), text.size());
  out.finish();
}

// Returns the two lines of the record, which are empty if there is none.
std::pair<std::string, std::string> read_record(const FetchedFile& file) {
  std::ifstream in(file.record, std::ios::binary);
  std::pair<std::string, std::string> lines;
  std::getline(in, lines.first);
  std::getline(in, lines.second);
  return lines;
}

// A slash would lead to another folder, and a percent sign is the escape.
std::string flat(const std::string& name) {
  std::string text;
  for (const char c : name) c == '/' ? text += "%2F" : c == '%' ? text += "%25" : text += c;
  return text;
}

// The names come from the server, and must not lead out of the folder. The library has checked the names of shards.
void require_good_name(const std::string& url, const std::string& name, bool may_have_folders) {
  bool good = name.find('\0') == name.npos && (may_have_folders || name.find('/') == name.npos);
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    good = good && !part.empty() && part != "." && part != ".." && part != kPartsFolder;
    at = end + 1;
  }
  if (!good) throw Failure{kBadFile, formatted("{}: {} is not the name of a file", url, shown(name, 100))};
}

class Fetch {
 public:
  explicit Fetch(const FetchOptions& options) : options_(options), parts_(in_folder(options.folder, kPartsFolder)) {}

  void run() {
    open_all();
    make_folder(options_.folder);
    make_parts_folder();
    const st::io::Descriptor lock = open_or_fail(in_folder(parts_, "lock"), O_RDWR | O_CREAT | O_NOFOLLOW);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Failure{kUnreadable, options_.folder + ": another fetch is writing to this folder"};
    }
    for (FetchedFile& file : files_) find_state(file);
    try {
      for (FetchedFile& file : files_) prepare(file);
      download_all();
      install();
    } catch (...) {
      if (is_interrupted()) {
        std::fprintf(stderr, "safetensors: interrupted; to continue, run the same command again\n");
      }
      throw;
    }
    print();
  }

 private:
  // ---- before the download

  // fetch trusts the parts and records in this folder, so only this user may write to it.
  void make_parts_folder() const {
    if (mkdir(parts_.c_str(), 0700) != 0 && errno != EEXIST) fail_on_file(parts_);
    struct stat status {};
    if (lstat(parts_.c_str(), &status) != 0) fail_on_file(parts_);
    const bool own = S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & S_IWOTH) == 0;
    if (!own) throw Failure{kUnreadable, parts_ + ": is not a folder that only this user may write to"};
  }

  bool must_stop() const { return has_failed_ || is_interrupted(); }

  void open_all() {
    const std::string whole = whole_url(options_.url);
    const HttpEnvironment environment(whole);
    std::vector<st::http::NamedFile> opened;
    try {
      st::http::Settings settings = st::http::settings_of(&environment.options());
      settings.is_cancelled = [this] { return must_stop(); };
      settings.keep_beginning = true;
      st_error error = ST_INIT(st_error);
      st_file* file = nullptr;
      const st_status status = st::http::open_url(whole, std::move(settings), nullptr, &file, &error, &opened);
      st_free(file);
      if (status != ST_OK) throw safetensors::Error(status, error.message, error.offset, error.os_error);
    } catch (const st::http::Failure& failure) {
      fail(failure);
    } catch (const safetensors::Error& error) {
      throw failure_in(options_.url, error);
    }
    opened.front().name = percent_decoded(opened.front().name);
    for (std::size_t i = 0; i < opened.size(); ++i) {
      const std::string& name = opened[i].name;
      require_good_name(options_.url, name, i > 0);
      FetchedFile& file = files_.emplace_back();
      file.remote = opened[i].file;
      file.is_index = opened.size() > 1 && i == 0;
      file.path = in_folder(options_.folder, name);
      file.part = in_folder(parts_, flat(name) + ".part");
      file.record = in_folder(parts_, flat(name) + ".version");
    }
    std::rotate(files_.begin(), files_.begin() + (files_.size() > 1 ? 1 : 0), files_.end());  // the index is the last
  }

  [[noreturn]] void fail(const st::http::Failure& failure) const {
    throw failure_in(options_.url, safetensors::Error(failure.status, failure.message, UINT64_MAX, failure.os_error));
  }

  // Reads nothing but the record and the states of the files.
  void find_state(FetchedFile& file) const {
    const auto [version, change] = read_record(file);
    const bool same = file.remote->version().detects_changes() && version == version_text(file);
    const auto complete = identity_of(file.path);
    file.is_there = same && complete && complete->size == file.size() && change_text(*complete) == change;
    if (file.is_there) return;
    if (!options_.replace && exists(file.path)) {
      throw Failure{kUnreadable, file.path + ": already exists; --replace replaces it"};
    }
    if (is_folder(file.path)) throw Failure{kUnreadable, file.path + ": is a folder"};
    const auto part = identity_of(file.part);
    if (same && part && part->size <= file.size()) file.begin = part->size;
  }

  // Writes the record before the part, so a part never has the record of another version.
  static void prepare(FetchedFile& file) {
    if (file.begin != 0) return;
    remove_file(file.part);  // of a complete file, if the process was killed just before it removed the part
    if (!file.is_there) write_record(file, "");
  }

  // ---- the download

  void download_all() {
    std::vector<FetchedFile*> wanted;
    std::uint64_t total = 0;
    for (FetchedFile& file : files_) {
      if (file.is_there) continue;
      wanted.push_back(&file);
      total += file.size() - file.begin;
    }
    std::atomic<std::size_t> next{0};
    std::size_t running = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < wanted.size() && !must_stop(); i = next++) download_or_note(*wanted[i]);
      const std::lock_guard lock(mutex_);
      --running;
      ended_.notify_one();
    };
    std::vector<std::thread> threads;
    const std::size_t count = std::min(kMostDownloads, wanted.size());
    threads.reserve(count);
    running = count;
    for (std::size_t i = 0; i < count; ++i) {
      try {
        threads.emplace_back(work);
      } catch (const std::system_error&) {  // fewer threads, or else this one
        const std::lock_guard lock(mutex_);
        running -= count - i;
        break;
      }
    }
    if (threads.empty() && count > 0) {
      running = 1;
      work();
    }
    {
      Progress progress("fetching");
      std::unique_lock lock(mutex_);
      while (!ended_.wait_for(lock, kProgressEvery, [&] { return running == 0; })) progress.show(done_, total);
    }
    for (std::thread& thread : threads) thread.join();
    stop_if_interrupted();
    if (thrown_) std::rethrow_exception(thrown_);
  }

  // Keeps the first exception and stops the other threads.
  void download_or_note(FetchedFile& file) {
    try {
      download(file);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!has_failed_) thrown_ = std::current_exception();
      has_failed_ = true;
    }
  }

  void download(FetchedFile& file) {
    const st::io::Descriptor part = open_or_fail(file.part, O_WRONLY | O_CREAT | O_NOFOLLOW);
    const auto keep = [&](std::uint64_t offset, const std::byte* data, std::size_t n) {
      if (must_stop()) throw Interruption{};
      if (const int error = st::io::write_all_at(part.get(), offset, data, n); error != 0) {
        fail_on_file(file.part, error);
      }
      done_ += n;
    };
    try {
      file.remote->stream(file.begin, file.size() - file.begin, keep);
    } catch (const st::http::Failure& failure) {
      fail(failure);
    }
    check(file);
    sync_or_fail(file.part, part);
  }

  // Checks a complete part, and removes it if it is wrong. The next run then starts over.
  void check(const FetchedFile& file) const {
    try {
      if (!file.is_index) check_format(file);
      check_sha256(file);
    } catch (const Failure& failure) {
      if (failure.code == kBadFile) remove_file(file.part);
      throw;
    }
  }

  static void check_format(const FetchedFile& file) {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;
    try {
      const safetensors::SafeOpen local(file.part, reading);
    } catch (const safetensors::Error& error) {
      throw failure_in(file.part, error);
    }
  }

  void check_sha256(const FetchedFile& file) const {
    const std::string& stated = file.remote->version().sha256;
    if (stated.empty()) return;
    std::ifstream in(file.part, std::ios::binary);
    std::vector<char> block(std::size_t{1} << 20);
    Digest digest(DigestKind::sha256);
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
      if (must_stop()) throw Interruption{};
      digest.add(block.data(), static_cast<std::size_t>(in.gcount()));
    }
    if (in.bad()) throw Failure{kUnreadable, file.part + ": cannot be read"};
    const std::string found = hex(digest.finish());
    if (found == stated) return;
    throw Failure{kBadFile,
                  formatted("{}: the SHA-256 digest is {}, but the server states {}; the download was removed",
                            file.path, found, stated)};
  }

  // ---- afterwards

  // An interruption leaves parts, which the next run installs. There is no index until all other files have their names.
  void install() {
    const bool changes =
        std::any_of(files_.begin(), files_.end(), [](const FetchedFile& file) { return !file.is_there; });
    for (const FetchedFile& file : files_) {
      if (file.is_there) continue;
      const auto state = identity_of(file.part);
      if (!state) throw Failure{kUnreadable, file.part + ": was removed during the download"};
      write_record(file, change_text(*state));
      make_folders(file.path);
    }
    FetchedFile& last = files_.back();
    if (last.is_index && changes && exists(last.path)) {
      if (!last.is_there) {
        remove_file(last.path);
      } else if (rename(last.path.c_str(), last.part.c_str()) != 0) {  // a complete part until it gets its name again
        fail_on_file(last.path);
      }
      last.is_there = false;
    }
    for (const FetchedFile& file : files_) {
      if (!file.is_there) give_name(file);
    }
    sync_or_fail(options_.folder, open_or_fail(options_.folder, O_RDONLY | O_DIRECTORY));
  }

  void make_folders(const std::string& path) const {
    for (std::size_t slash = path.find('/', options_.folder.size()); slash != path.npos;
         slash = path.find('/', slash + 1)) {
      make_folder(path.substr(0, slash));
    }
  }

  // link() never replaces a file, but some filesystems lack it.
  void give_name(const FetchedFile& file) const {
    if (!options_.replace) {
      if (link(file.part.c_str(), file.path.c_str()) == 0) return remove_file(file.part);
      if (errno == EEXIST) throw Failure{kUnreadable, file.path + ": already exists; --replace replaces it"};
    }
    struct stat old {};
    if (lstat(file.path.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
      if (chown(file.part.c_str(), old.st_uid, old.st_gid) != 0 && errno != EPERM) fail_on_file(file.part);
      if (chmod(file.part.c_str(), old.st_mode & 07777U) != 0) fail_on_file(file.part);
    }
    if (rename(file.part.c_str(), file.path.c_str()) != 0) fail_on_file(file.path);
  }

  void print() const {
    Output out;
    for (const FetchedFile& file : files_) {
      const bool has_digest = !file.is_there && !file.remote->version().sha256.empty();
      out.print("{}: {}{}{}\n", printable(file.path), human_bytes(file.size()), file.is_there ? ", already there" : "",
                has_digest ? ", SHA-256 matches" : "");
    }
    out.flush();
  }

  const FetchOptions& options_;
  const std::string parts_;
  const InterruptGuard guard_;
  std::vector<FetchedFile> files_;  // the index is the last
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // of thrown_ and the number of running threads
  std::condition_variable ended_;
  std::exception_ptr thrown_;
};

}  // namespace

void fetch(const FetchOptions& options) { Fetch(options).run(); }

}  // namespace cli
