// SPDX-License-Identifier: Apache-2.0
#include "simulated_disk.hpp"

#include <algorithm>
#include <random>

namespace st::core::simulated_disk {

namespace {

using faults::Change;
using Kind = Change::Kind;
using Choice = std::vector<std::size_t>;  // for each sector, one of its states

constexpr std::size_t kMostCombinations = 1024;
constexpr std::size_t kRandomCombinations = 200;

// Unlike rewritten bytes, a size that stays the same is not written again.
void set_size(File& file, std::uint64_t size) {
  if (size != file.size.now()) file.size.set(size);
}

void write(File& file, std::size_t offset, const std::string& bytes) {
  const std::size_t end = offset + bytes.size();
  const std::size_t count = (end + kSector - 1) / kSector;
  if (file.sectors.size() < count) file.sectors.resize(count, Uncertain(std::string(kSector, '\0')));
  for (std::size_t at = offset; at < end;) {
    const std::size_t inside = at % kSector;
    const std::size_t n = std::min(kSector - inside, end - at);
    std::string sector = file.sectors[at / kSector].now();
    sector.replace(inside, n, bytes, at - offset, n);
    file.sectors[at / kSector].set(std::move(sector));
    at += n;
  }
  set_size(file, std::max<std::uint64_t>(end, file.size.now()));
}

void for_each_part(File& file, const auto& run) {
  for (auto& sector : file.sectors) run(sector);
  run(file.size);
  run(file.mode);
}

Choice last_states(const File& file) {
  Choice last;
  for (const auto& sector : file.sectors) last.push_back(sector.states().size() - 1);
  return last;
}

std::string bytes_of(const File& file, const Choice& chosen, std::uint64_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < file.sectors.size(); ++i) bytes += file.sectors[i].states()[chosen[i]];
  bytes.resize(static_cast<std::size_t>(size));
  return bytes;
}

std::vector<Choice> choices(const File& file) {
  const Choice last = last_states(file);
  const Choice first(last.size(), 0);
  std::vector<std::size_t> uncertain;
  std::size_t count = 1;
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (last[i] > 0) uncertain.push_back(i);
    count = std::min(count * (last[i] + 1), kMostCombinations + 1);
  }
  std::vector<Choice> all;
  if (count <= kMostCombinations) {
    for (std::size_t number = 0; number < count; ++number) {
      all.push_back(first);
      std::size_t rest = number;
      for (const std::size_t i : uncertain) {
        all.back()[i] = rest % (last[i] + 1);
        rest /= last[i] + 1;
      }
    }
    return all;
  }
  all = {first, last};
  const auto add = [&](Choice choice, std::size_t i, std::size_t state) {
    choice[i] = state;
    all.push_back(std::move(choice));
  };
  Choice begun = first;
  for (const std::size_t i : uncertain) {
    add(first, i, last[i]);
    add(last, i, 0);
    begun[i] = last[i];
    all.push_back(begun);
  }
  std::mt19937 random(1);
  for (std::size_t n = 0; n < kRandomCombinations; ++n) {
    all.push_back(first);
    for (const std::size_t i : uncertain) all.back()[i] = random() % (last[i] + 1);
  }
  return all;
}

bool show(const File& file, const Disk::See& see) {
  for (const Choice& choice : choices(file)) {
    for (const std::uint64_t size : file.size.states()) {
      const std::string bytes = bytes_of(file, choice, size);
      for (const std::uint64_t mode : file.mode.states()) {
        if (!see(Content{bytes, mode})) return false;
      }
    }
  }
  return true;
}

}  // namespace

void Disk::add(const Name& name, std::uint64_t inode, const Content& content) {
  File& file = create(inode, content.mode);
  write(file, 0, content.bytes);
  for_each_part(file, [](auto& part) { part.sync(); });
  names_.insert_or_assign(name, Uncertain(Number(files_.size() - 1)));
}

// A file that is gone may have had the same inode.
File& Disk::create(std::uint64_t inode, std::uint64_t mode) {
  numbers_[inode] = files_.size();
  files_.emplace_back().mode = Uncertain(mode);
  return files_.back();
}

void Disk::apply(const Change& change) {
  if (change.kind == Kind::create) {
    create(change.inode, change.value);
    return;
  }
  if (change.kind == Kind::name) {
    auto& name = names_.try_emplace({change.folder, change.name}, Number()).first->second;
    name.set(change.inode == 0 ? Number() : numbers_.at(change.inode));
    return;
  }
  const bool synced = change.kind == Kind::sync;
  const bool failed = change.kind == Kind::failed_sync;
  const auto sync = [&](auto& part) { synced ? part.sync() : part.fail_to_sync(); };
  const auto found = numbers_.find(change.inode);
  if (found == numbers_.end() && (synced || failed)) {  // a directory
    for (auto& [name, number] : names_) {
      if (name.folder == change.inode) sync(number);
    }
    return;
  }
  File& file = files_[numbers_.at(change.inode)];
  if (synced || failed) for_each_part(file, sync);
  if (change.kind == Kind::bytes) write(file, static_cast<std::size_t>(change.offset), change.bytes);
  if (change.kind == Kind::size) set_size(file, change.value);
  if (change.kind == Kind::mode) file.mode.set(change.value);
}

bool Disk::lose_power(const Name& name, const See& see) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return see(std::nullopt);
  const auto& numbers = found->second.states();
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](Number number) { return number ? show(files_[*number], see) : see(std::nullopt); });
}

std::map<Name, Content> Disk::now() const {
  std::map<Name, Content> all;
  for (const auto& [name, number] : names_) {
    if (!number.now()) continue;
    const File& file = files_[*number.now()];
    all[name] = {bytes_of(file, last_states(file), file.size.now()), file.mode.now()};
  }
  return all;
}

}  // namespace st::core::simulated_disk
