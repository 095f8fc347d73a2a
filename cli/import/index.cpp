// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "budget.hpp"
#include "error.hpp"
#include "import.hpp"
#include "input.hpp"
#include "io/directory.hpp"
#include "new_model.hpp"
#include "output.hpp"

namespace cli::importer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;  // sorted: lookups in ordered_json are linear

constexpr std::string_view kExtension = ".safetensors";
constexpr std::uint64_t kLongestIndex = 100'000'000;
constexpr int kDeepest = 100;  // because dump() is recursive

// Throws a Failure if the file cannot be read.
Input opened(const std::string& path) {
  try {
    return Input(path);
  } catch (const ImportError& error) {
    throw failure_in(path, error);
  }
}

std::string read_text(const std::string& path, const Input& file) {
  try {
    if (file.size() > kLongestIndex) fail(kNoOffset, "index of {} bytes (limit: {})", file.size(), kLongestIndex);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, text.data(), text.size());
    return text;
  } catch (const ImportError& error) {
    throw failure_in(path, error);
  }
}

// A handler for Json::sax_parse(). Rejects deep nesting, duplicate keys in an object (nlohmann_json would silently keep
// the last value), and more values than the file's size allows. A callback for Json::parse() would take quadratic time
// if one object contains many others.
class Check {
 public:
  Check(const std::string& path, std::uint64_t bytes) : path_(path), budget_(bytes) {}

  bool null() { return charge(0); }
  bool boolean(bool /*value*/) { return charge(0); }
  bool number_integer(std::int64_t /*value*/) { return charge(0); }
  bool number_unsigned(std::uint64_t /*value*/) { return charge(0); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return charge(0); }
  bool string(const std::string& text) { return charge(text.size()); }
  bool binary(const Json::binary_t& /*value*/) { return false; }  // not in JSON
  bool start_array(std::size_t /*size*/) { return begin(); }
  bool end_array() { return end(); }
  bool start_object(std::size_t /*size*/) {
    keys_.emplace_back();
    return begin();
  }
  bool key(const std::string& name) {
    if (!keys_.back().insert(name).second) {
      throw Failure{kBadFile, formatted("{}: key '{}' occurs twice", path_, name)};
    }
    return charge(2 * name.size());
  }
  bool end_object() {
    keys_.pop_back();
    return end();
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/, const Json::exception& /*error*/) { return false; }

 private:
  static constexpr std::uint64_t kBytesPerValue = 64;

  bool charge(std::uint64_t text) {
    budget_.charge(kBytesPerValue + text, kNoOffset);
    return true;
  }
  bool begin() {
    if (++depth_ > kDeepest) {
      throw Failure{kBadFile, formatted("{}: arrays and objects are nested deeper than {}", path_, kDeepest)};
    }
    return charge(0);
  }
  bool end() {
    --depth_;
    return true;
  }

  const std::string& path_;
  Budget budget_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects around the current value
};

// Returns null if the file is not an index.
Json read_index(const std::string& path, const Input& input) {
  const std::string text = read_text(path, input);
  Check check(path, text.size());
  try {
    if (!Json::sax_parse(text, &check)) return nullptr;
  } catch (const ImportError& error) {
    throw failure_in(path, error);
  }
  Json index = Json::parse(text);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return nullptr;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) return nullptr;
  }
  return index;
}

// The tensors that an index lists, by shard.
using Listed = std::map<std::string, std::vector<std::string>>;

Listed listed_in(const Json& index) {
  Listed listed;
  for (const auto& [tensor, file] : index["weight_map"].items()) listed[file.get<std::string>()].push_back(tensor);
  return listed;
}

// Returns the new name of a shard, as the reference's converter does: pytorch_model-00001-of-00002.bin becomes
// model-00001-of-00002.safetensors.
std::string written_name(const std::string& file) {
  constexpr std::string_view kOld = "pytorch_model";
  std::string name = fs::path(file).stem().string() + std::string(kExtension);
  const std::size_t at = name.find(kOld);
  if (at != name.npos) name.replace(at, kOld.size(), "model");
  return name;
}

struct Target {
  fs::path folder;
  fs::path index;
};

Target target_of(const Import& request) {
  const std::string& into = request.into;
  if (into.ends_with(kIndexEnding)) return {fs::path(into).parent_path(), into};
  if (into == "-" || into.ends_with(kExtension)) {
    throw Failure{kUsage, into + ": A has several files, so B must be a folder or end in .index.json"};
  }
  std::string name = fs::path(request.from).filename().string();
  name.resize(name.size() - kIndexEnding.size());
  return {into, fs::path(into) / (written_name(name) + std::string(kIndexEnding))};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

class Shards {
 public:
  explicit Shards(const Import& request) : request_(request), source_(fs::path(request.from).parent_path()) {
    const Input file = opened(request.from);
    seen_.emplace(request.from, file.seen());
    index_ = read_index(request.from, file);
    if (index_.is_null()) throw Failure{kUnreadable, request.from + ": changed while it was read"};
    listed_ = listed_in(index_);
  }

  void convert();

 private:
  std::vector<std::string> paths() const;
  void check(const Target& target);
  void require_unchanged(const std::string& path, const st::io::Identity& now) const;
  std::vector<std::string> new_names(const Target& target) const;
  void convert_shard(const std::string& file, const Target& target);
  void check_tensors(const std::string& file, const Imported& written) const;
  void write_index(const fs::path& path);
  void print_index(const fs::path& path) const;

  const Import& request_;
  Json index_;
  Listed listed_;
  fs::path source_;
  std::map<std::string, std::string> places_;     // by tensor
  std::map<std::string, st::io::Identity> seen_;  // the inputs, as they were before the first conversion
  std::uint64_t bytes_ = 0;
  std::unique_ptr<NewFiles> new_files_;
};

std::vector<std::string> Shards::paths() const {
  std::vector<std::string> paths{request_.from};
  for (const auto& [file, tensors] : listed_) paths.push_back((source_ / file).string());
  return paths;
}

// Rejects a link that leads out of the folder, as the library does for its own formats.
void check_link(const fs::path& folder, const std::string& file, const std::string& index) {
  try {
    st::io::open_directory(folder.empty() ? "." : folder.string())->open(file, /*follow_links=*/false);
  } catch (const st::Error& error) {
    throw Failure{error.os_error == 0 ? kBadFile : kUnreadable, index + ": " + error.message};
  }
}

// Called before anything is written.
void Shards::check(const Target& target) {
  const Inputs inputs(paths());
  std::set<fs::path> outputs{target.index};
  for (const auto& [file, tensors] : listed_) {
    if (file.empty() || fs::path(file).filename() != file || file.find('\0') != file.npos) {
      throw Failure{kBadFile, formatted("{}: shard '{}' is not in the same folder", request_.from, file)};
    }
    const std::string path = (source_ / file).string();
    seen_.emplace(path, opened(path).seen());
    check_link(source_, file, request_.from);
    if (!outputs.insert(target.folder / written_name(file)).second) {
      throw Failure{kBadFile, formatted("{}: two shards would be named {}", request_.from, written_name(file))};
    }
  }
  for (const fs::path& path : outputs) {
    if (inputs.contain(path.string())) throw Failure{kUsage, path.string() + ": is also an input"};
    if (is_there(path)) throw Failure{kUnreadable, path.string() + ": already exists"};
  }
}

void Shards::check_tensors(const std::string& file, const Imported& written) const {
  const std::set<std::string> names(written.names.begin(), written.names.end());
  for (const std::string& tensor : listed_.at(file)) {
    if (names.count(tensor) != 0 || written.dropped.count(tensor) != 0) continue;
    throw Failure{kBadFile, formatted("{}: tensor '{}' is not in {}", request_.from, tensor, file)};
  }
}

// Returns the files to create, in writing order.
std::vector<std::string> Shards::new_names(const Target& target) const {
  std::vector<std::string> names;
  for (const auto& [file, tensors] : listed_) names.push_back(written_name(file));
  names.push_back(target.index.filename().string());
  return names;
}

void Shards::convert_shard(const std::string& file, const Target& target) {
  Import shard = request_;
  shard.from = (source_ / file).string();
  shard.into = (target.folder / written_name(file)).string();
  shard.write.flags |= ST_WRITE_NO_REPLACE;
  shard.published = [this] { new_files_->count_next(); };
  stop_if_interrupted();
  const Imported written = import_file(shard);
  require_unchanged(shard.from, written.seen);
  check_tensors(file, written);
  bytes_ += written.bytes;
  for (const std::string& name : written.names) {
    if (places_.emplace(name, written_name(file)).second) continue;
    throw Failure{kBadFile, formatted("{}: tensor '{}' is in two shards", request_.from, name)};
  }
}

// Each shard is opened only when its turn comes. By then, or afterwards, a download of another version may have
// replaced or overwritten a part of the model.
void Shards::require_unchanged(const std::string& path, const st::io::Identity& now) const {
  if (now.same_bytes(seen_.at(path))) return;
  throw Failure{kUnreadable, path + ": was changed or replaced while the model was being converted"};
}

void Shards::print_index(const fs::path& path) const {
  Output out;
  out.print("{}: index of {}, {}\n", printable(path.string()), counted(places_.size(), "tensor"), human_bytes(bytes_));
  out.flush();
}

void Shards::write_index(const fs::path& path) {
  Json map = Json::object();
  for (const auto& [tensor, file] : index_["weight_map"].items()) {
    const auto place = places_.find(tensor);
    if (place != places_.end()) map[tensor] = place->second;
  }
  for (const auto& [tensor, file] : places_) {
    if (!index_["weight_map"].contains(tensor)) map[tensor] = file;
  }
  index_["weight_map"] = std::move(map);
  if (!index_["metadata"].is_object()) index_["metadata"] = Json::object();
  index_["metadata"]["total_size"] = bytes_;
  if (request_.dry_run) return print_index(path);
  const std::string text = index_.dump(4) + "\n";
  OutputFile output(path.string(), /*replace=*/false);
  output.write(text.data(), text.size());
  output.finish();
  new_files_->count_next();
}

void Shards::convert() {
  const Target target = target_of(request_);
  check(target);
  const std::string folder = target.folder.empty() ? "." : target.folder.string();
  if (!request_.dry_run) new_files_ = std::make_unique<NewFiles>(folder, new_names(target));
  for (const auto& [file, tensors] : listed_) convert_shard(file, target);
  for (const auto& [path, seen] : seen_) require_unchanged(path, opened(path).seen());
  write_index(target.index);
  if (new_files_) new_files_->keep();
}

}  // namespace

bool is_importable_index(const std::string& path) {
  std::error_code ignored;
  if (!path.ends_with(kIndexEnding) || !fs::is_regular_file(path, ignored)) return false;
  const Json index = read_index(path, opened(path));
  if (index.is_null()) return false;
  const fs::path folder = fs::path(path).parent_path();
  const Listed listed = listed_in(index);
  return std::any_of(listed.begin(), listed.end(), [&](const auto& shard) {
    const std::string& file = shard.first;
    const bool is_missing = !is_there(folder / file) && !format_of_extension(file);
    return is_missing || is_importable((folder / file).string());
  });
}

void import_index(const Import& request) { Shards(request).convert(); }

}  // namespace cli::importer
