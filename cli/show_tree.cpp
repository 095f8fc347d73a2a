// The tree of `safetensors show --tree`: names split at dots, and identical numbered blocks shown once.
//
// A name may have thousands of dots. Levels beyond a limit stay in one piece, which bounds the recursion.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "show.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLongestName = 200;

struct Node {
  std::string name;
  std::vector<std::unique_ptr<Node>> children;  // in data order
  std::map<std::string_view, Node*> by_name;
  const safetensors::Tensor* tensor = nullptr;
  std::uint64_t bytes = 0;
  std::size_t kind = 0;  // equal for identical nodes
};

Node& child_of(Node& node, std::string_view name) {
  const auto found = node.by_name.find(name);
  if (found != node.by_name.end()) return *found->second;
  Node& child = *node.children.emplace_back(std::make_unique<Node>());
  child.name = name;
  node.by_name.emplace(child.name, &child);
  return child;
}

void insert(Node& root, const safetensors::Tensor& tensor) {
  Node* node = &root;
  node->bytes += tensor.nbytes();
  std::string_view rest = tensor.name;
  for (std::size_t depth = 1; depth < kDeepest; ++depth) {
    const std::size_t dot = rest.find('.');
    if (dot == rest.npos) break;
    node = &child_of(*node, rest.substr(0, dot));
    node->bytes += tensor.nbytes();
    rest.remove_prefix(dot + 1);
  }
  Node& leaf = child_of(*node, rest);
  leaf.bytes += tensor.nbytes();
  leaf.tensor = &tensor;
}

// Numbers the kinds of nodes. Dtype, shape, and names and kinds of children make a kind.
class Kinds {
 public:
  void set(Node& node) {
    std::string text = node.tensor == nullptr ? "" : type_text(*node.tensor);
    for (const auto& child : node.children) {
      set(*child);
      text += formatted("\n{}:{}={}", child->name.size(), child->name, child->kind);
    }
    node.kind = numbers_.emplace(std::move(text), numbers_.size()).first->second;
  }

  static std::string type_text(const safetensors::Tensor& tensor) {
    std::string text(tensor.dtype_name());
    for (const std::uint64_t dimension : tensor.shape) text += formatted(",{}", dimension);
    return text;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

std::optional<std::uint64_t> number_of(const Node& node) {
  std::uint64_t number = 0;
  const char* const end = node.name.data() + node.name.size();
  const auto [stop, error] = std::from_chars(node.name.data(), end, number);
  if (error != std::errc() || stop != end || node.name.empty()) return std::nullopt;
  return number;
}

// Siblings in one line of the tree.
struct Group {
  const Node* first;
  std::vector<std::uint64_t> numbers;  // empty for a node whose name is not a number
  std::uint64_t bytes = 0;
};

std::vector<Group> groups_of(const Node& node) {
  std::vector<Group> groups;
  std::map<std::size_t, std::size_t> places;  // the group of each kind
  for (const auto& child : node.children) {
    const auto number = number_of(*child);
    if (!number) {
      groups.push_back({child.get(), {}, child->bytes});
      continue;
    }
    const auto [place, is_new] = places.emplace(child->kind, groups.size());
    if (is_new) groups.push_back({child.get(), {}, 0});
    groups[place->second].numbers.push_back(*number);
    groups[place->second].bytes += child->bytes;
  }
  for (Group& group : groups) std::sort(group.numbers.begin(), group.numbers.end());
  return groups;
}

// "0-11, 14"
std::string ranges_text(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += formatted("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

class Printer {
 public:
  Printer(bool exact, Output& out) : exact_(exact), out_(out) {}

  void print(const Node& node, const std::string& indent) {
    const std::vector<Group> groups = groups_of(node);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool last = i + 1 == groups.size();
      print(groups[i], indent + (last ? "└─ " : "├─ "), indent + (last ? "   " : "│  "));
    }
  }

  void line(std::uint64_t bytes, const std::string& text) {
    out_.print("{:>{}}  {}\n", exact_ ? std::to_string(bytes) : human_bytes(bytes), exact_ ? 15 : 8, text);
  }

 private:
  void print(const Group& group, const std::string& indent, const std::string& below) {
    const Node* node = group.first;
    std::string name = group.numbers.size() > 1 ? ranges_text(group.numbers) : node->name;
    // A chain of single children is one line.
    while (group.numbers.size() <= 1 && node->tensor == nullptr && node->children.size() == 1) {
      node = node->children.front().get();
      name += "." + node->name;
    }
    std::string text = indent + shown(name, kLongestName);
    if (group.numbers.size() > 1) {
      const std::uint64_t each = node->bytes;
      text += formatted("  {} × {}", group.numbers.size(), exact_ ? std::to_string(each) : human_bytes(each));
    }
    if (node->tensor != nullptr) {
      text += formatted("  {} {}", shown(node->tensor->dtype_name(), 20), shape_text(node->tensor->shape));
    }
    line(group.bytes, text);
    print(*node, below);
  }

  bool exact_;
  Output& out_;
};

}  // namespace

void print_tree(const Listing& listing, bool exact, Output& out) {
  Node root;
  for (const safetensors::Tensor& tensor : listing.tensors) insert(root, tensor);
  Kinds().set(root);
  Printer printer(exact, out);
  printer.line(root.bytes, printable(listing.path));
  printer.print(root, "");
  const std::uint64_t hidden = listing.all.tensors - listing.tensors.size();
  if (hidden != 0) out.print("… {} more\n", grouped(hidden));
}

}  // namespace cli
