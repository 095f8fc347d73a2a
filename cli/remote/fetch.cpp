// Downloads a model into a folder.
//
// All files are opened first, which checks their headers. Each file is then one stream of bytes, and several files are
// downloaded at the same time. The bytes go to parts in FOLDER/.safetensors-fetch. A part only grows at its end, so its
// length is all that a later run needs to know. A record next to it says which version of the file it is a part of: if
// the server has another version, the part starts over. When all parts are complete and checked, they get their names,
// the index last.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "failure.hpp"
#include "http/open_url.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"
#include "io/posix/target.hpp"
#include "json.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "remote.hpp"
#include "remote/environment.hpp"
#include "remote/folder.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kMostDownloads = 8;  // at the same time
constexpr auto kProgressEvery = std::chrono::milliseconds(100);

using st::http::RemoteFile;
using st::io::Identity;

// ---- what to download

struct FetchedFile {
  std::shared_ptr<RemoteFile> remote;
  bool is_index = false;
  std::string name;                      // in the model's folder; may contain slashes
  std::string path;                      // for messages
  std::string part;                      // name of its part
  std::string record;                    // name of its record
  std::uint64_t begin = 0;               // length of the part when this run begins
  bool is_there = false;                 // an earlier run has completed it
  bool keeps_access = false;             // an earlier run has given it its access rights
  std::optional<Identity> id;            // of the complete file, or of the checked part
  std::optional<st::io::Access> access;  // of an index that was removed

  std::uint64_t size() const { return remote->size(); }
};

std::string sha256_of(const std::string& text) {
  Digest digest(DigestKind::sha256);
  digest.add(text.data(), text.size());
  return hex(digest.finish());
}

// Files of several URLs may have the same ETag: many servers make it of the time and the size. So both the URL and the
// end of its redirects count. Either may be signed, and then differs at each run: the query and the redirects do not
// count if the server states a digest. Headers may have bytes that are not UTF-8, so they are percent-encoded.
std::string version_text(const FetchedFile& file) {
  const st::http::Version& version = file.remote->version();
  const bool has_digest = !version.sha256.empty();
  return json_text({{"url", file.remote->shown()},
                    {"query", has_digest ? "" : sha256_of(file.remote->query())},
                    {"target", has_digest ? "" : version.origin + version.path},
                    {"size", version.size},
                    {"etag", st::http::encoded(version.etag)},
                    {"last_modified", st::http::encoded(version.last_modified)},
                    {"sha256", version.sha256}});
}

// The record of a complete file also contains the time of its last change. If a program edits the file, it no longer
// counts as the server's.
std::string change_text(const Identity& state) { return formatted("{}.{:09}", state.modified[0], state.modified[1]); }

// Returns the common part of the names of part and record. A slash would lead to another folder; a percent sign is the
// escape.
std::string stem_of(const std::string& name) {
  constexpr std::size_t kLongest = 240;  // names of files have at most 255 bytes
  std::string text;
  for (const char c : name) c == '/' ? text += "%2F" : c == '%' ? text += "%25" : text += c;
  return text.size() <= kLongest ? text : sha256_of(name);
}

bool has_extension_of_shards(const std::string& name) {
  const std::string folded = lower_case(name);
  return folded.ends_with(".safetensors") || folded.ends_with(".bintensors") || folded.ends_with(".bt");
}

// The names of shards come from the server, and must not lead out of the folder. In a home directory, other programs
// would obey files such as .ssh/authorized_keys.
void require_good_name(const std::string& url, const std::string& name, bool is_shard) {
  bool good = name.find('\0') == name.npos && (is_shard ? has_extension_of_shards(name) : name.find('/') == name.npos);
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string part = name.substr(at, end - at);
    good = good && !part.empty() && part.front() != '.';
    at = end + 1;
  }
  if (!good) {
    throw Failure{kBadFile,
                  formatted("{}: {} is not the name of a {}", url, shown(name, 100), is_shard ? "shard" : "file")};
  }
}

// Some file systems do not distinguish upper case: two files would become one there.
class DistinctNames {
 public:
  void add(const std::string& url, const std::string& name) {
    const std::string folded = lower_case(name);
    bool good = !folders_.contains(folded) && files_.insert(folded).second;
    for (std::size_t slash = folded.find('/'); slash != folded.npos; slash = folded.find('/', slash + 1)) {
      const std::string folder = folded.substr(0, slash);
      good = good && !files_.contains(folder);
      folders_.insert(folder);
    }
    if (!good) {
      throw Failure{kBadFile, formatted("{}: {} clashes with another name (upper and lower case count as the same)",
                                        url, shown(name, 100))};
    }
  }

 private:
  std::set<std::string> files_;
  std::set<std::string> folders_;
};

mode_t mode_of_new_files() {
  const mode_t mask = umask(077);
  umask(mask);
  return static_cast<mode_t>(0666 & ~mask);
}

class Fetch {
 public:
  explicit Fetch(const FetchOptions& options) : options_(options), mode_(mode_of_new_files()) {}

  void run() {
    open_all();
    folder_.emplace(options_.folder);
    parts_.emplace(*folder_);
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
    // Threads have opened the shards in any order.
    std::sort(opened.begin() + 1, opened.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    DistinctNames names;
    for (std::size_t i = 0; i < opened.size(); ++i) {
      const std::string& name = opened[i].name;
      require_good_name(options_.url, name, i > 0);
      names.add(options_.url, name);
      FetchedFile& file = files_.emplace_back();
      file.remote = opened[i].file;
      file.is_index = opened.size() > 1 && i == 0;
      file.name = name;
      file.path = in_folder(options_.folder, name);
      file.part = stem_of(name) + ".part";
      file.record = stem_of(name) + ".version";
    }
    std::rotate(files_.begin(), files_.begin() + (files_.size() > 1 ? 1 : 0), files_.end());  // the index is the last
  }

  [[noreturn]] void fail(const st::http::Failure& failure) const {
    throw failure_in(options_.url, safetensors::Error(failure.status, failure.message, UINT64_MAX, failure.os_error));
  }

  // ---- parts and records

  void write_record(const FetchedFile& file, const std::string& change) const {
    parts_->write(file.record, version_text(file) + "\n" + change + "\n");
  }

  // Changes nothing but removes parts and records that are not this program's.
  void find_state(FetchedFile& file) const {
    const std::string record = parts_->read(file.record);
    const std::string version = version_text(file) + "\n";
    const bool same = file.remote->version().detects_changes() && record.compare(0, version.size(), version) == 0;
    const Place place = folder_->place_of(file.name, false);
    if (const auto status = place.status(); status && S_ISREG(status->st_mode)) {
      file.id = st::io::identity_of(*status);
      file.is_there = same && file.id->size == file.size() && record == version + change_text(*file.id) + "\n";
    }
    if (file.is_there) return;
    place.require_free(options_.replace);
    // A part that also has the file's name is not this program's alone, and dropped: a program may have edited the file.
    const st::io::Descriptor part = parts_->open_own(file.part, O_RDONLY);
    const std::uint64_t size = part ? identity_of_part(file, part).size : 0;
    if (same && size <= file.size()) file.begin = size;
  }

  Identity identity_of_part(const FetchedFile& file, const st::io::Descriptor& part) const {
    struct stat status {};
    if (st::io::fresh_status(part.get(), status) != 0) fail_on_file(parts_->shown(file.part));
    return st::io::identity_of(status);
  }

  // Writes the record before the part, so a part never has the record of another version.
  void prepare(const FetchedFile& file) const {
    if (file.begin != 0) return;
    parts_->remove(file.part);  // of a complete file, if the process was killed just before it removed the part
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
    const std::string shown = parts_->shown(file.part);
    const st::io::Descriptor part = file.begin == 0 ? parts_->create(file.part) : parts_->open_own(file.part, O_RDWR);
    if (!part) throw Failure{kUnreadable, shown + ": was changed by another process"};
    const auto keep = [&](std::uint64_t offset, const std::byte* data, std::size_t n) {
      if (must_stop()) throw Interruption{};
      if (const int error = st::io::write_all_at(part.get(), offset, data, n); error != 0) fail_on_file(shown, error);
      done_ += n;
    };
    try {
      file.remote->stream(file.begin, file.size() - file.begin, keep);
    } catch (const st::http::Failure& failure) {
      fail(failure);
    }
    check(file, part);
    try {
      sync_or_fail(shown, part);
    } catch (const Failure&) {
      parts_->remove(file.part);  // may have bytes that were never written: the next sync would not say so again
      throw;
    }
    file.id = identity_of_part(file, part);
  }

  // Checks a complete part, and removes it if it is wrong. The next run then starts over.
  void check(const FetchedFile& file, const st::io::Descriptor& part) const {
    try {
      if (!file.is_index) check_format(file, part);
      check_sha256(file, part);
    } catch (const Failure& failure) {
      if (failure.code == kBadFile) parts_->remove(file.part);
      throw;
    }
  }

  void check_format(const FetchedFile& file, const st::io::Descriptor& part) const {
    st_open_options reading = ST_INIT(st_open_options);
    reading.io = ST_IO_READ;
    try {
      safetensors::SafeOpen::from_fd(part.get(), 0, 0, reading);
    } catch (const safetensors::Error& error) {
      throw failure_in(parts_->shown(file.part), error);
    }
  }

  void check_sha256(const FetchedFile& file, const st::io::Descriptor& part) const {
    const std::string& stated = file.remote->version().sha256;
    if (stated.empty()) return;
    std::vector<char> block(std::size_t{1} << 20);
    Digest digest(DigestKind::sha256);
    for (std::uint64_t at = 0; at < file.size();) {
      if (must_stop()) throw Interruption{};
      const ssize_t n = pread(part.get(), block.data(), block.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Failure{kUnreadable, parts_->shown(file.part) + ": cannot be read"};
      digest.add(block.data(), static_cast<std::size_t>(n));
      at += static_cast<std::uint64_t>(n);
    }
    const std::string found = hex(digest.finish());
    if (found == stated) return;
    throw Failure{kBadFile,
                  formatted("{}: the SHA-256 digest is {}, but the server states {}; the download was removed",
                            file.path, found, stated)};
  }

  // ---- afterwards

  // An interruption leaves parts, which the next run installs. There is no index until all other files have their names.
  void install() {
    std::vector<const FetchedFile*> done;
    for (const FetchedFile& file : files_) {
      if (!file.is_there) done.push_back(&file);
    }
    if (done.empty()) return;
    for (const FetchedFile* file : done) folder_->place_of(file->name, false).require_free(options_.replace);
    for (const FetchedFile* file : done) {
      write_record(*file, change_text(identity_of_part(*file, open_checked(*file))));
      folder_->place_of(file->name, true);
    }
    if (FetchedFile& last = files_.back(); last.is_index) {
      if (last.is_there) done.push_back(&last);
      take_away(last);
    }
    for (const FetchedFile* file : done) {
      if (file->is_index) sync_subfolders(done);
      give_name(*file);
    }
    folder_->sync();
    if (files_.size() == 1) note_hidden(files_.front().path);
  }

  // The shards have got names there.
  void sync_subfolders(const std::vector<const FetchedFile*>& done) const {
    std::set<std::string> synced;
    for (const FetchedFile* file : done) {
      for (std::size_t slash = file->name.find('/'); slash != file->name.npos;
           slash = file->name.find('/', slash + 1)) {
        const std::string name = file->name.substr(0, slash + 1);
        if (!synced.insert(name).second) continue;
        const Place place = folder_->place_of(name, true);
        sync_or_fail(place.shown, place.folder);
      }
    }
  }

  // Removes an old index. If it is the server's, it becomes a complete part until it gets its name again.
  void take_away(FetchedFile& index) const {
    const Place place = folder_->place_of(index.name, false);
    const auto status = place.status();
    if (!index.is_there) {
      place.require_free(options_.replace);
      index.access = access_of(place);
      if (status && unlinkat(place.folder.get(), place.name.c_str(), 0) != 0) fail_on_file(place.shown);
      return;
    }
    if (!status || !st::io::identity_of(*status).same_bytes(*index.id)) {
      throw Failure{kUnreadable, place.shown + ": was changed during the download"};
    }
    if (renameat(place.folder.get(), place.name.c_str(), parts_->descriptor(), index.part.c_str()) != 0) {
      fail_on_file(place.shown);
    }
    index.is_there = false;
    index.keeps_access = true;
  }

  // Opens the checked part.
  st::io::Descriptor open_checked(const FetchedFile& file) const {
    st::io::Descriptor part =
        st::io::open_file(parts_->descriptor(), file.part.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const auto found = part ? std::optional(identity_of_part(file, part)) : std::nullopt;
    if (!found || !found->same_file(*file.id) || found->size != file.size()) {
      throw Failure{kUnreadable, parts_->shown(file.part) + ": was changed during the download"};
    }
    return part;
  }

  void give_name(const FetchedFile& file) const {
    const st::io::Descriptor part = open_checked(file);
    const Place place = folder_->place_of(file.name, true);
    if (!file.keeps_access) give_access(file, part, place);
    const int error = options_.replace ? rename_over(file, place) : rename_to_free(file, place);
    if (error == EEXIST) throw Failure{kUnreadable, file.path + ": already exists; --replace replaces it"};
    if (error != 0) fail_on_file(file.path, error);
  }

  std::optional<st::io::Access> access_of(const Place& place) const {
    if (!options_.replace) return std::nullopt;
    try {
      return st::io::access_of(place.folder.get(), place.name);
    } catch (const st::Error& error) {
      fail_on_file(place.shown, error.os_error);
    }
  }

  // A part is 0600. If the file replaces another, it gets that one's access rights.
  void give_access(const FetchedFile& file, const st::io::Descriptor& part, const Place& place) const {
    const auto access = file.access ? file.access : access_of(place);
    const int error = access ? st::io::give_access(part.get(), *access) : fchmod(part.get(), mode_) != 0 ? errno : 0;
    if (error != 0 && parts_->keeps_modes()) fail_on_file(parts_->shown(file.part), error);
  }

  int rename_over(const FetchedFile& file, const Place& place) const {
    return renameat(parts_->descriptor(), file.part.c_str(), place.folder.get(), place.name.c_str()) == 0 ? 0 : errno;
  }

  // Some systems lack the rename that does not replace a file, and some filesystems lack links.
  int rename_to_free(const FetchedFile& file, const Place& place) const {
    const int error = st::io::rename_to_free_name(parts_->descriptor(), file.part, place.folder.get(), place.name);
    if (error != ENOSYS) return error;
    if (linkat(parts_->descriptor(), file.part.c_str(), place.folder.get(), place.name.c_str(), 0) == 0) {
      parts_->remove(file.part);
      return 0;
    }
    if (errno == EEXIST || place.status()) return EEXIST;
    return rename_over(file, place);
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
  const mode_t mode_;  // of new files
  std::optional<ModelFolder> folder_;
  std::optional<PartsFolder> parts_;
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
