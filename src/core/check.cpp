// SPDX-License-Identifier: Apache-2.0
#include "core/check.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string_view>
#include <utility>

#include "core/shard_list.hpp"
#include "format/habits.hpp"
#include "format/name_index.hpp"
#include "format/shard_index/shard_index.hpp"
#include "io/os.hpp"
#include "io/source.hpp"

namespace st::core {

namespace {

using format::Findings;

// Findings of a model. A finding takes 64 times as much memory as the bytes of a header that it is about.
constexpr std::size_t kMostOfModel = 10 * format::kMostFindings;

struct CheckedFile {
  std::shared_ptr<const std::string> path;  // which its findings share
  std::size_t findings = 0;
  bool has_error = false;
  bool full = false;

  // After kMostFindings nothing more is told of it, but for its first error.
  bool takes(bool is_note) const { return !full || (!is_note && !has_error); }
};

struct CheckedShard {
  Shard shard{std::pmr::new_delete_resource()};
  CheckedFile file;
  std::optional<io::Identity> identity;
  std::vector<bool> listed;
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

  void file(std::unique_ptr<io::Source> source) { header_of(shards_.emplace_back(), std::move(source)); }

  void model(const ShardList& list) {
    std::vector<char> text;
    format::shard_index::Index index(std::pmr::new_delete_resource());
    std::vector<std::string_view> names(list.files.begin(), list.files.end());
    bool has_index = false;  // a faulty one is partly read
    if (!list.index.empty()) {
      const auto source = list.folder->open(list.index, /*follow_links=*/true);
      index_.path = std::make_shared<const std::string>(source->name());
      has_index = read_index(*source, text, index);
      if (has_index) names.assign(index.shards.begin(), index.shards.end());
    }
    if (index_.path == nullptr) index_.path = std::make_shared<const std::string>(list.folder->path());
    for (const std::string_view name : names) {
      if (!index_.takes(/*is_note=*/false)) break;  // an index may name millions that are not there
      open_shard(list, std::string(name));
      if (headers_.exceeded()) return;
      if (report_.size() >= kMostOfModel) {
        report_.push_back(
            {{{Status::shard, 0, kNowhere,
               formatted("more than {} findings: shards after {} were not checked", kMostOfModel, in_quotes(name))},
              nullptr,
              false},
             index_.path});
        return;
      }
    }
    check_files();
    check_names();
    if (has_index) check_claims(index);
  }

 private:
  void add(CheckedFile& file, format::Finding finding) {
    if (!file.takes(finding.is_note)) return;
    const bool is_first_error = !finding.is_note && !file.has_error;
    file.has_error = file.has_error || is_first_error;
    if (++file.findings > format::kMostFindings && !is_first_error) {
      file.full = true;
      finding.fault.offset = kNowhere;
      finding.fault.message = formatted("more than {} findings, the others are not told", format::kMostFindings);
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

  void header_of(CheckedShard& checked, std::unique_ptr<io::Source> source) {
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
      return add(headers_.exceeded() ? index_ : checked.file, error);
    }
    shard.source.reset();  // an index may name more shards than a process may have open
    const std::vector<char> text = padded_copy(shard.header.bytes());
    const std::string_view header(text.data(), shard.header.size());
    format::HeaderOptions options = options_.header;
    options.owner = &shard;
    Findings faults = read(shard.header.bytes(), size, options, shard.table);
    checked.good = faults.empty();
    add(checked.file, std::move(faults));
    if (!checked.good) return;
    checked.listed.resize(shard.table.tensors.size());
    add_notes(checked, size, header);
  }

  // Reads the header as opening does. Returns every fault, first the one that opening throws.
  static Findings read(std::span<char> header, std::uint64_t size, const format::HeaderOptions& options, Table& table) {
    Findings faults;
    std::vector<char> text = padded_copy(header);
    try {
      format::read_header(header, size, options, table);
    } catch (const Error& error) {
      format::survey_header({text.data(), header.size()}, size, options, faults);
      if (faults.empty()) faults.push_back({error, nullptr, false});
    }
    return faults;
  }

  void add_notes(CheckedShard& checked, std::uint64_t size, std::string_view header) {
    Findings notes;
    format::note_habits(checked.shard.table, header, notes);
    add(checked.file, std::move(notes));
    if (options_.header.rules != format::Rules::standard) return;
    format::HeaderOptions strict = options_.header;
    strict.rules = format::Rules::strict;
    std::vector<char> text = padded_copy(header);
    Table table(std::pmr::new_delete_resource());
    notes = read({text.data(), header.size()}, size, strict, table);
    for (format::Finding& note : notes) note.is_note = true;
    add(checked.file, std::move(notes));
  }

  // ---- a model -------------------------------------------------------------------------------------------------------

  bool read_index(const io::Source& source, std::vector<char>& text, format::shard_index::Index& index) {
    try {
      const std::uint64_t limit = std::min(options_.header.max_bytes, format::kMaxHeaderBytes);
      if (source.size() > limit)
        fail(Status::header_size, "index: {} bytes long, the limit is {}", source.size(), limit);
      const auto size = static_cast<std::size_t>(source.size());
      text.resize(size + format::kPadding);
      source.read_at(0, text.data(), size);
      format::shard_index::read({text.data(), size}, options_.header, index);
      return true;
    } catch (const Error& error) {
      add(index_, error);
      return false;
    }
  }

  void open_shard(const ShardList& list, const std::string& name) {
    CheckedShard& checked = shards_.emplace_back();
    try {
      header_of(checked, list.folder->open(name, options_.follow_links));
    } catch (Error& error) {
      if (error.status == Status::open && io::is_no_such_file(error.os_error)) {
        error.status = Status::shard;
        error.message = formatted("shard {} is missing", in_quotes(name));
      }
      add(index_, error);
    }
  }

  void check_files() {
    std::vector<std::optional<io::Identity>> identities;
    for (const CheckedShard& checked : shards_) identities.push_back(checked.identity);
    const std::optional<SameFile> same = find_same_file(identities);
    if (!same) return;
    add(index_, Error{Status::shard, 0, kNowhere,
                      formatted("shards {} and {} are one file", in_quotes(*shards_[same->first].file.path),
                                in_quotes(*shards_[same->second].file.path))});
  }

  void check_names() {
    std::vector<Named> all;
    for (CheckedShard& checked : shards_) {
      for (const Tensor& tensor : checked.shard.table.tensors) {
        if (checked.good) all.push_back({tensor.name(), &checked});
      }
    }
    format::NameIndex<Named> places(std::pmr::new_delete_resource());  // with a seed: files choose the names
    places.reset(all.size(), options_.header.seed);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint32_t earlier = places.insert(all.data(), static_cast<std::uint32_t>(i));
      CheckedFile& file = all[i].shard->file;
      if (earlier == format::NameIndex<Named>::kNone || !file.takes(/*is_note=*/false)) continue;
      add_of_tensor(file,
                    {Status::shard, 0, kNowhere,
                     formatted("tensor {} is in two shards, {} and {}", in_quotes(all[i].text),
                               in_quotes(*all[earlier].shard->file.path), in_quotes(*file.path))},
                    all[i].text);
    }
  }

  void check_claims(const format::shard_index::Index& index) {
    for (const format::shard_index::Entry& entry : index.entries) {
      if (!index_.takes(/*is_note=*/false)) break;
      CheckedShard& checked = shards_[entry.shard];
      if (!checked.good) continue;
      const Table& table = checked.shard.table;
      const std::uint32_t number = table.index.find(table.tensors.data(), entry.tensor);
      const std::string name = in_quotes(entry.tensor);
      const std::string shard = in_quotes(index.shards[entry.shard]);
      if (number == table.index.kNone) {
        add_of_tensor(index_,
                      {Status::shard, 0, kNowhere, formatted("index: tensor {} is not in its shard {}", name, shard)},
                      entry.tensor);
      } else if (checked.listed[number]) {
        add_of_tensor(
            index_,
            {Status::duplicate, 0, kNowhere, formatted("index: tensor {} is given twice, for shard {}", name, shard)},
            entry.tensor);
      } else {
        checked.listed[number] = true;
      }
    }
    if (index_.takes(/*is_note=*/false)) {  // else not all that it lists was looked at
      for (CheckedShard& checked : shards_) add_unlisted(checked);
    }
    check_total_size(index);
  }

  void add_unlisted(CheckedShard& checked) {
    const bool is_note = options_.header.rules != format::Rules::strict;
    for (std::size_t i = 0; checked.good && i < checked.listed.size(); ++i) {
      if (checked.listed[i]) continue;
      if (!checked.file.takes(is_note)) return;
      const std::string_view name = checked.shard.table.tensors[i].name();
      add_of_tensor(checked.file,
                    {Status::shard, 0, kNowhere, formatted("tensor {} is not listed by the index", in_quotes(name))},
                    name, is_note);
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
      add(index_,
          {Status::shard, 0, kNowhere,
           formatted("index: total_size is {}, the tensors have {} bytes", in_quotes(pair.value), sum)},
          /*is_note=*/true);
    }
  }

  OpenOptions options_;
  HeaderSum headers_;
  std::deque<CheckedShard> shards_;
  CheckedFile index_;  // or, where there is none, the folder
  Report report_;
};

}  // namespace

Report check(const char* path, const OpenOptions& options) {
  Checker checker(options);
  if (is_index_name(path)) {
    checker.model(shards_of_index(path));
    return checker.take();
  }
  if (std::unique_ptr<io::Source> source = io::file_source_unless_directory(path)) {
    checker.file(std::move(source));
    return checker.take();
  }
  const ShardList list = shards_of_folder(io::open_directory(path));
  list.is_one_file() ? checker.file(list.open_file()) : checker.model(list);
  return checker.take();
}

}  // namespace st::core
