// The tree of `safetensors show --tree`: names split at dots, and identical numbered blocks shown once.
//
// The tree is never built. Tensors are sorted by the parts of their names, so each node is a range of tensors. Only the
// children along the current path are in memory.
//
// A name may have thousands of dots. Levels beyond a limit are not split, which bounds the recursion.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <span>

#include "show.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLongestInTree = 200;

using safetensors::Tensor;

// The tensors whose names begin with the same parts.
struct Node {
  std::span<const std::size_t> tensors;  // indexes in data order, sorted by name
  std::string_view name;                 // the last of these parts
  std::size_t depth = 0;                 // number of these parts
  std::size_t end = 0;                   // length of these parts with a dot after each
  std::size_t first = 0;                 // the first tensor in data order
  std::uint64_t bytes = 0;
};

// Sorts the dot before all other characters: "a", "a.b", "a-b".
bool is_before(std::string_view a, std::string_view b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() || y == b.end()) return x == a.end() && y != b.end();
  if (*x == '.' || *y == '.') return *x == '.';
  return static_cast<unsigned char>(*x) < static_cast<unsigned char>(*y);
}

class Tree {
 public:
  explicit Tree(const std::vector<Tensor>& tensors) : tensors_(tensors), order_(tensors.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return is_before(tensors_[a].name, tensors_[b].name); });
  }

  Node root() const {
    Node root{order_, {}};
    for (const Tensor& tensor : tensors_) root.bytes += tensor.nbytes();
    return root;
  }

  // Returns the tensor whose name ends here, or nullptr.
  const Tensor* tensor_of(const Node& node) const {
    const Tensor& tensor = tensors_[node.tensors.front()];
    return node.depth != 0 && tensor.name.size() < node.end ? &tensor : nullptr;
  }

  // Returns the children by name.
  std::vector<Node> children_of(const Node& node) const {
    std::vector<Node> children;
    const std::size_t skipped = !node.tensors.empty() && tensor_of(node) != nullptr ? 1 : 0;
    const std::span<const std::size_t> below = node.tensors.subspan(skipped);
    for (std::size_t i = 0; i < below.size();) {
      const std::string_view name = part_of(node, below[i]);
      Node& child = children.emplace_back(Node{{}, name, node.depth + 1, node.end + name.size() + 1, below[i]});
      const std::size_t begin = i;
      for (; i < below.size() && part_of(node, below[i]) == name; ++i) {
        child.first = std::min(child.first, below[i]);
        child.bytes += tensors_[below[i]].nbytes();
      }
      child.tensors = below.subspan(begin, i - begin);
    }
    return children;
  }

  // Orders nodes by their contents: names, dtypes and shapes. Identical nodes compare equal.
  bool is_less(const Node& a, const Node& b) const {
    if (a.tensors.size() != b.tensors.size()) return a.tensors.size() < b.tensors.size();
    for (std::size_t i = 0; i < a.tensors.size(); ++i) {
      const int order = compare(a, tensors_[a.tensors[i]], b, tensors_[b.tensors[i]]);
      if (order != 0) return order < 0;
    }
    return false;
  }

 private:
  // Returns the part of a tensor's name below a node.
  std::string_view part_of(const Node& node, std::size_t tensor) const {
    const std::string_view rest = tensors_[tensor].name.substr(node.end);
    return node.depth + 1 < kDeepest ? rest.substr(0, rest.find('.')) : rest;
  }

  // The rest of a name begins with the dot, because "a." differs from "a".
  static int compare(const Node& a, const Tensor& x, const Node& b, const Tensor& y) {
    if (const int order = x.name.substr(a.end - 1).compare(y.name.substr(b.end - 1)); order != 0) return order;
    if (const int order = x.dtype_name().compare(y.dtype_name()); order != 0) return order;
    const auto is_shape_less = [](const Tensor& s, const Tensor& t) {
      return std::lexicographical_compare(s.shape.begin(), s.shape.end(), t.shape.begin(), t.shape.end());
    };
    return is_shape_less(x, y) ? -1 : is_shape_less(y, x) ? 1 : 0;
  }

  const std::vector<Tensor>& tensors_;
  std::vector<std::size_t> order_;
};

std::optional<std::uint64_t> number_of(const Node& node) {
  std::uint64_t number = 0;
  const char* const end = node.name.data() + node.name.size();
  const auto [stop, error] = std::from_chars(node.name.data(), end, number);
  if (error != std::errc() || stop != end || node.name.empty()) return std::nullopt;
  return number;
}

// Siblings in one line of the tree: a node, or identical nodes whose names are numbers.
using Group = std::span<const Node>;

// Sorts the children so that each group is contiguous. Returns the groups in data order.
std::vector<Group> groups_of(const Tree& tree, std::vector<Node>& children) {
  const auto is_kind_less = [&](const Node& a, const Node& b) {
    const bool numbers = number_of(a).has_value();
    if (numbers != number_of(b).has_value()) return numbers;
    return numbers ? tree.is_less(a, b) : a.first < b.first;
  };
  std::sort(children.begin(), children.end(), [](const Node& a, const Node& b) { return a.first < b.first; });
  std::stable_sort(children.begin(), children.end(), is_kind_less);
  std::vector<Group> groups;
  for (std::size_t begin = 0, end = 0; begin < children.size(); begin = end) {
    while (end < children.size() && !is_kind_less(children[begin], children[end])) ++end;
    groups.push_back(std::span(children).subspan(begin, end - begin));
  }
  std::sort(groups.begin(), groups.end(), [](Group a, Group b) { return a.front().first < b.front().first; });
  return groups;
}

std::vector<std::uint64_t> numbers_of(Group group) {
  std::vector<std::uint64_t> numbers;
  for (const Node& node : group) numbers.push_back(number_of(node).value_or(0));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
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

class TreePrinter {
 public:
  TreePrinter(const Tree& tree, bool exact, Output& out) : tree_(tree), exact_(exact), out_(out) {}

  void print(const Node& node, const std::string& indent) {
    std::vector<Node> children = tree_.children_of(node);
    const std::vector<Group> groups = groups_of(tree_, children);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool last = i + 1 == groups.size();
      print(groups[i], indent + (last ? "└─ " : "├─ "), indent + (last ? "   " : "│  "));
    }
  }

  void line(std::uint64_t bytes, const std::string& text) {
    out_.print("{:>{}}  {}\n", exact_ ? std::to_string(bytes) : human_bytes(bytes), exact_ ? 15 : 8, text);
  }

 private:
  void print(Group group, const std::string& indent, const std::string& below) {
    Node node = group.front();
    std::string name = group.size() > 1 ? ranges_text(numbers_of(group)) : std::string(node.name);
    if (group.size() == 1) name += skip_chain(node);
    std::string text = indent + shown(name, kLongestInTree);
    if (group.size() > 1) {
      const std::uint64_t each = node.bytes;
      text += formatted("  {} × {}", group.size(), exact_ ? std::to_string(each) : human_bytes(each));
    }
    if (const Tensor* const tensor = tree_.tensor_of(node)) {
      text += formatted("  {} {}", shown(tensor->dtype_name(), 20), shape_text(tensor->shape));
    }
    line(node.bytes * group.size(), text);
    print(node, below);
  }

  // Prints a chain of single children as one line: moves `node` to the chain's end and returns the names on the way.
  std::string skip_chain(Node& node) const {
    std::string names;
    while (tree_.tensor_of(node) == nullptr) {
      const std::vector<Node> children = tree_.children_of(node);
      if (children.size() != 1) break;
      node = children.front();
      names.append(".").append(node.name);
    }
    return names;
  }

  const Tree& tree_;
  bool exact_;
  Output& out_;
};

}  // namespace

void print_tree(const Listing& listing, bool exact, Output& out) {
  const Tree tree(listing.tensors);
  const Node root = tree.root();
  TreePrinter printer(tree, exact, out);
  printer.line(root.bytes, printable(listing.path));
  printer.print(root, "");
  const std::uint64_t hidden = listing.all.tensors - listing.tensors.size();
  if (hidden != 0) out.print("… {} more\n", grouped(hidden));
}

}  // namespace cli
