#pragma once
// The neighbours of a vertex: a set of numbers in a binary tree of sorted runs.
//
//   left (all smaller) ← | run of up to 22 numbers | → right (all greater)
//
// A full run gives its upper half to a new node, which takes over the right subtree. With numbers
// that come in random order the tree stays a few levels deep.
//
// Concurrency: changes by one thread; readers when nobody changes it.
// Lifetime: destroys its nodes; a heap of the Memory outlives it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "bench/heap/memory.h"

namespace yonder::bench::heap {

// 112 bytes.
template <typename Memory>
struct TreeNode {
  static constexpr std::uint32_t kNumbers = 22;
  typename Memory::template Ptr<TreeNode> left;
  typename Memory::template Ptr<TreeNode> right;
  std::uint32_t count = 0;
  std::array<std::uint32_t, kNumbers> numbers{};

  std::uint32_t smallest() const { return numbers[0]; }
  std::uint32_t greatest() const { return numbers[count - 1]; }
};

template <typename Memory>
class NeighbourTree {
 public:
  // False if it was there already.
  bool insert(std::uint32_t number) {
    if (!root_) {
      root_ = Memory::template make<Node>();
      const auto node = root_.write();
      node->numbers[0] = number;
      node->count = 1;
      return true;
    }
    auto node = root_.write();
    for (;;) {
      if (number < node->smallest() && node->left) {
        node = node->left.write();
      } else if (number > node->greatest() && node->right) {
        node = node->right.write();
      } else {
        return insert_here(*node, number);
      }
    }
  }

  // Appends all numbers greater than `above`, in order.
  void collect(std::uint32_t above, std::vector<std::uint32_t>& out) const {
    if (root_) collect(root_, above, out);
  }

 private:
  using Node = TreeNode<Memory>;
  using Ptr = typename Memory::template Ptr<Node>;

  static bool insert_here(Node& node, std::uint32_t number) {
    const auto end = node.numbers.begin() + node.count;
    const auto at = std::lower_bound(node.numbers.begin(), end, number);
    if (at != end && *at == number) return false;
    if (node.count == Node::kNumbers) {
      split(node);
      if (number > node.greatest()) return insert_here(*node.right.write(), number);
      return insert_here(node, number);
    }
    std::move_backward(at, end, end + 1);
    *at = number;
    ++node.count;
    return true;
  }

  static void split(Node& node) {
    constexpr std::uint32_t kKept = Node::kNumbers / 2;
    Ptr upper = Memory::template make<Node>();
    {
      const auto half = upper.write();
      half->count = node.count - kKept;
      std::copy(node.numbers.begin() + kKept, node.numbers.begin() + node.count, half->numbers.begin());
      half->right = std::move(node.right);
    }
    node.count = kKept;
    node.right = std::move(upper);
  }

  static void collect(const Ptr& at, std::uint32_t above, std::vector<std::uint32_t>& out) {
    const auto node = at.read();
    if (node->left && node->smallest() > above) collect(node->left, above, out);
    const auto end = node->numbers.begin() + node->count;
    out.insert(out.end(), std::upper_bound(node->numbers.begin(), end, above), end);
    if (node->right) collect(node->right, above, out);
  }

  Ptr root_;
};

}  // namespace yonder::bench::heap

template <typename Memory>
struct yonder::heap::is_relocatable<yonder::bench::heap::TreeNode<Memory>> : std::true_type {};
