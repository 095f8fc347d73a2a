// SPDX-License-Identifier: Apache-2.0
#include "core/check.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string_view>
#include <utility>

#include "core/model_files.hpp"
#include "core/open_shards.hpp"
#include "format/lint.hpp"
#include "format/shard_index/shard_index.hpp"
#include "format/table.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

using format::Findings;

// Maximum number of findings per model. A finding takes 64 times as much memory as the header bytes that cause it.
constexpr std::size_t kMostOfModel = 10 * format::kMostFindings;

struct CheckedFile {
  std::shared_ptr<const std::string> path;  // shared by its findings
  std::size_t findings = 0;
  bool has_error = false;
  bool full = false;

  // After kMostFindings, only the first error is still added.
  bool takes(bool is_note) const { return !full || (!is_note && !has_error); }
};

struct CheckedShard {
  Shard shard{std::pmr::new_delete_resource()};
  CheckedFile file;
  std::optional<io::Identity> identity;
  bool good = false;
};

struct Named {
  std::string_view text;
  CheckedShard* shard;

  std::string_view name() const { return text; }
};

std::vector<char> padded_copy(std::span<const char> text) {
  std::vector<char> copy(text.size() + format::kPadding);
  std::copy(text.begin(), text.end(), copy.begin());
  return copy;
}

class Checker {
 public:
  explicit Checker(const OpenOptions& options) : options_(options), headers_{options.max_headers_bytes} {
    options_.header.seed = io::hash_seed(this);
    options_.header.index_names = true;
  }

  Report take() { return std::move(report_); }

  void file(std::unique_ptr<io::Source> source) { check_header(shards_.emplace_back(), std::move(source)); }

  void model(const ModelFiles& files) {
    PaddedBuffer text;
    format::shard_index::Index index(std::pmr::new_delete_resource());
    std::vector<std::string_view> names(files.files.begin(), files.files.end());
    bool has_index = false;  // and the index is valid
    if (!files.index.empty()) {
      const auto source = files.directory->open(files.index, /*follow_links=*/true);
      model_.path = std::make_shared<const std::string>(source->name());
      has_index = read_index(*source, text, index);
      if (has_index) names.assign(index.shards.begin(), index.shards.end());
    }
    if (model_.path == nullptr) model_.path = std::make_shared<const std::string>(files.directory->path());
    for (std::size_t first = 0; first < names.size(); first = shards_.size()) {
      if (!add_batch(files, std::span(names).subspan(first, end_of_batch(first, names.size()) - first))) return;
      if (!model_.takes(/*is_note=*/false)) break;  // an index may name millions of shards that do not exist
    }
    check_files();
    if (has_index) check_claims(index);
    check_names();
    if (has_index) check_total_size(index);
  }

 private:
  void add(CheckedFile& file, format::Finding finding) {
    if (!file.takes(finding.is_note)) return;
    const bool is_first_error = !finding.is_note && !file.has_error;
    has_error_ = has_error_ || is_first_error;
    file.has_error = file.has_error || is_first_error;
    if (++file.findings > format::kMostFindings && !is_first_error) {
      file.full = true;
      finding.fault.offset = kNowhere;
      finding.fault.message = formatted("more than {} findings; the rest is omitted", format::kMostFindings);
      finding.tensor.reset();
    }
    report_.push_back({std::move(finding), file.path});
  }
  void add(CheckedFile& file, Error error, bool is_note = false) {
    add(file, format::Finding{std::move(error), nullptr, is_note});
  }
  void add_of_tensor(CheckedFile& file, Error error, std::string_view tensor, bool is_note = false) {
    add(file, format::Finding{std::move(error), std::make_shared<const std::string>(tensor), is_note});
  }
  void add(CheckedFile& file, Findings findings) {
    for (format::Finding& finding : findings) add(file, std::move(finding));
  }

  // ---- one file ------------------------------------------------------------------------------------------------------

  void check_header(CheckedShard& checked, std::unique_ptr<io::Source> source) {
    Shard& shard = checked.shard;
    shard.source = std::move(source);
    checked.identity = shard.source->identity();
    checked.file.path = std::make_shared<const std::string>(shard.source->name());
    shard.path = checked.file.path->c_str();
    const std::uint64_t size = shard.source->size();
    try {
      read_header_text(shard, options_.header, &headers_);
    } catch (const Error& error) {
      shard.source.reset();
      return headers_.exceeded() ? void() : add(checked.file, error);
    }
    shard.source.reset();  // a model may have more shards than the process's limit of open files
    const std::vector<char> text = padded_copy(shard.header.bytes());
    const std::string_view header(text.data(), shard.header.size());
    Findings faults = read_header(shard.header.bytes(), size, options_.header, shard.table);
    checked.good = faults.empty();
    add(checked.file, std::move(faults));
    if (!checked.good) return;
    add_notes(checked, size, header);
  }

  // Reads the header as opening does. Returns all errors, beginning with the one that opening throws.
  static Findings read_header(std::span<char> header, std::uint64_t size, const format::HeaderOptions& options,
                              Table& table) {
    Findings faults;
    std::vector<char> text = padded_copy(header);
    try {
      format::read_header(header, size, options, table);
    } catch (const Error& error) {
      format::diagnose_header({text.data(), header.size()}, size, options, faults);
      if (faults.empty()) faults.push_back({error, nullptr, false});
    }
    return faults;
  }

  void add_notes(CheckedShard& checked, std::uint64_t size, std::string_view header) {
    Findings notes;
    format::lint(checked.shard.table, header, notes);
    add(checked.file, std::move(notes));
    if (options_.header.rules != format::Rules::standard) return;
    format::HeaderOptions strict = options_.header;
    strict.rules = format::Rules::strict;
    std::vector<char> text = padded_copy(header);
    Table table(std::pmr::new_delete_resource());
    notes = read_header({text.data(), header.size()}, size, strict, table);
    for (format::Finding& note : notes) note.is_note = true;
    add(checked.file, std::move(notes));
  }

  // ---- a model -------------------------------------------------------------------------------------------------------

  bool read_index(const io::Source& source, PaddedBuffer& text, format::shard_index::Index& index) {
    try {
      text = read_index_text(source, options_.header, *std::pmr::new_delete_resource());
      format::shard_index::read(text.bytes(), options_.header, index);
      return true;
    } catch (const Error& error) {
      add(model_, error);
      return false;
    }
  }

  // Returns false if the check must stop.
  bool add_batch(const ModelFiles& files, std::span<const std::string_view> names) {
    const bool had_error = has_error_;
    for (const std::string_view name : names) {
      if (!model_.takes(/*is_note=*/false)) break;
      add_shard(files, std::string(name));
      if (report_.size() < kMostOfModel) continue;
      report_.push_back(
          {{{Status::shard, 0, kNowhere,
             formatted("more than {} findings: shards after {} were not checked", kMostOfModel, in_quotes(name))},
            nullptr,
            false},
           model_.path});
      break;
    }
    if (headers_.exceeded()) {  // opening reports this before the errors of the batch
      const std::string& model = files.index.empty() ? files.directory->path() : files.index;
      report_.insert(had_error ? report_.end() : report_.begin(),
                     {{error_of_header_sum(model, shards_.size(), headers_), nullptr, false}, model_.path});
    }
    return !headers_.exceeded() && report_.size() < kMostOfModel;
  }

  void add_shard(const ModelFiles& files, const std::string& name) {
    CheckedShard& checked = shards_.emplace_back();
    checked.shard.number = shards_.size() - 1;
    try {
      check_header(checked, files.directory->open(name, options_.follow_links));
    } catch (const Error& error) {
      if (!headers_.exceeded()) add(model_, error_of_shard(error, name, {}, files.index));
    }
  }

  void check_files() {
    std::vector<std::optional<io::Identity>> identities;
    for (const CheckedShard& checked : shards_) {
      const bool has_no_tensors = checked.good && checked.shard.table.tensors.empty();
      identities.push_back(has_no_tensors ? std::nullopt : checked.identity);
    }
    const std::optional<SameFile> same = find_same_file(identities);
    if (same) add(model_, error_of_one_file(*shards_[same->first].file.path, *shards_[same->second].file.path));
  }

  void check_names() {
    std::vector<Named> all;
    for (CheckedShard& checked : shards_) {
      for (const Tensor& tensor : checked.shard.table.tensors) {
        if (checked.good) all.push_back({tensor.name(), &checked});
      }
    }
    format::NameIndex<Named> places(std::pmr::new_delete_resource());
    places.reset(all.size(), options_.header.seed);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint32_t earlier = places.insert(all.data(), static_cast<std::uint32_t>(i));
      CheckedFile& file = all[i].shard->file;
      if (earlier == format::NameIndex<Named>::kNone || !file.takes(/*is_note=*/false)) continue;
      add_of_tensor(file, error_of_name_in_two_shards(all[i].text, *all[earlier].shard->file.path, *file.path),
                    all[i].text);
    }
  }

  void check_claims(const format::shard_index::Index& index) {
    const ShardClaims claims(index, std::pmr::new_delete_resource());
    const ModelTable none(std::pmr::new_delete_resource());  // each shard has an index of its names
    for (CheckedShard& checked : shards_) {
      if (!model_.takes(/*is_note=*/false)) return;
      if (!checked.good) continue;
      Findings faults;
      format::FaultSink collects(faults);
      std::vector<bool> listed;
      try {
        listed = listed_tensors(checked.shard, claims, none, collects);
      } catch (const Error&) {  // more findings than the report can hold
      }
      for (format::Finding& fault : faults) {
        fault.fault =
            error_of_shard(std::move(fault.fault), index.shards[checked.shard.number], checked.shard.path, {});
        add(model_, std::move(fault));
      }
      add_unlisted(checked, listed);
    }
  }

  // If unlisted tensors are an error, the first finding has the same message as opening.
  void add_unlisted(CheckedShard& checked, const std::vector<bool>& listed) {
    const bool is_note = options_.header.rules != format::Rules::strict;
    bool is_first = true;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      if (listed[i]) continue;
      if (!checked.file.takes(is_note)) return;
      const std::string_view name = checked.shard.table.tensors[i].name();
      add_of_tensor(checked.file,
                    {Status::shard, 0, kNowhere,
                     is_first && !is_note ? describe_unlisted(checked.shard, listed)
                                          : formatted("tensor {} is not listed in the index", in_quotes(name))},
                    name, is_note);
      is_first = false;
    }
  }

  void check_total_size(const format::shard_index::Index& index) {
    std::uint64_t sum = 0;
    for (const CheckedShard& checked : shards_) {
      if (!checked.good) return;
      for (const Tensor& tensor : checked.shard.table.tensors) sum += tensor.bytes();
    }
    for (const format::MetadataPair& pair : index.metadata) {
      if (pair.key != "total_size" || pair.value == std::to_string(sum)) continue;
      add(model_,
          {Status::shard, 0, kNowhere,
           formatted("index: total_size is {}, but the tensors have {} bytes", in_quotes(pair.value), sum)},
          /*is_note=*/true);
    }
  }

  OpenOptions options_;
  HeaderSum headers_;
  std::deque<CheckedShard> shards_;
  CheckedFile model_;       // the index, or else the directory
  bool has_error_ = false;  // whether the report has a finding other than notes
  Report report_;
};

}  // namespace

Report check(const char* path, const OpenOptions& options) {
  Checker checker(options);
  if (std::unique_ptr<io::Source> file = open_file_unless_model(path)) {
    checker.file(std::move(file));
  } else {
    const ModelFiles files = files_of_model(path);
    files.is_one_file() ? checker.file(files.open_file()) : checker.model(files);
  }
  return checker.take();
}

}  // namespace st::core
