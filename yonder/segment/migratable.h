#pragma once
// Migratable<C>: a std container that moves between live processes.
//
//   using Map = segment::unordered_map<std::uint64_t, segment::string>;
//   source:  auto map = Migratable<Map>::create(agent, 256_MiB);
//            (*map)->emplace(7, "hello");                     // at the speed of std
//            map->connect(target);  map->transfer();
//   target:  auto got = agent.receive(deadline);
//            auto map = Migratable<Map>::adopt(agent, *got);
//            (*map)->at(7);                                   // at once; pages follow
//
// The container, its nodes and the allocator's own state all lie in the segment, at the
// same address everywhere, so nothing is serialised. The segment's first page says what
// type it holds: adopt() refuses another one, as far as its name and size tell. Both
// processes must be built from the same headers and standard library.
//
// Concurrency: as the container. Lifetime: the destructor destroys the container and
// deallocates its segment if it is still ours. The agent outlives it.

#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/heap.h"
#include "yonder/segment/traits.h"

namespace yonder::segment {

namespace internal {

// FNV-1a of the type's name as the compiler writes it, and its size.
template <typename T>
consteval std::uint64_t fingerprint() {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : std::string_view(__PRETTY_FUNCTION__))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash ^ sizeof(T)) * 0x100000001b3;
}

}  // namespace internal

template <typename C>
class Migratable {
  static_assert(
      can_migrate<C>,
      "this type holds something that stays behind when its segment moves: a pointer, a reference, a "
      "handle, or a container that does not use segment::Allocator (see segment/traits.h)");

 public:
  // A new segment with an empty container. Errors of Agent::allocate.
  static Result<Migratable> create(Agent& agent, Bytes bytes) {
    YONDER_TRY(segment, agent.allocate(bytes));
    Result<Heap*> heap = Heap::format(segment.memory);
    void* memory = heap ? (*heap)->try_allocate(sizeof(Root), alignof(Root)) : nullptr;
    if (memory == nullptr) {
      (void)agent.deallocate(segment.id);
      return fail(ErrorCode::kInvalidArgument, "make a container: the segment is too small");
    }
    Root* root = new (memory) Root{internal::fingerprint<C>(), C(Allocator<std::byte>(**heap))};
    (*heap)->set_root(root);
    return Migratable(agent, segment.id, root);
  }

  // The container of a segment that was received. kCorrupt: it holds another type, or none.
  static Result<Migratable> adopt(Agent& agent, const Segment& segment) {
    YONDER_TRY(heap, Heap::adopt(segment.memory));
    auto* root = static_cast<Root*>(heap->root());
    const auto* begin = reinterpret_cast<const Root*>(segment.memory.data());
    const auto* end =
        reinterpret_cast<const Root*>(segment.memory.data() + segment.memory.size() - sizeof(Root));
    if (root < begin || root > end || root->fingerprint != internal::fingerprint<C>())
      return fail(ErrorCode::kCorrupt, "adopt a container: the segment holds another type");
    return Migratable(agent, segment.id, root);
  }

  Migratable(Migratable&& other) noexcept
      : agent_(other.agent_), id_(other.id_), root_(std::exchange(other.root_, nullptr)) {}
  Migratable& operator=(Migratable&& other) noexcept {
    std::swap(agent_, other.agent_);
    std::swap(id_, other.id_);
    std::swap(root_, other.root_);
    return *this;
  }
  ~Migratable() {
    if (root_ == nullptr) return;
    // The whole segment goes: its elements' destructors would only free memory in it.
    (void)agent_->cancel(id_);
    (void)agent_->deallocate(id_);
  }

  SegmentId id() const { return id_; }
  // Requires that it was not transferred (checked).
  C& operator*() const { return *get(); }
  C* operator->() const { return get(); }
  bool is_ours() const { return root_ != nullptr; }

  Result<void> connect(ProcessId target, ConnectOptions options = {}, Deadline deadline = {}) {
    return agent_->connect(id_, target, options, deadline);
  }
  Result<void> cancel(Deadline deadline = {}) { return agent_->cancel(id_, deadline); }
  // After success, or in doubt, the container is no longer ours.
  Result<Transferred> transfer(Deadline deadline = {}) {
    Result<Transferred> transferred = agent_->transfer(id_, deadline);
    if (transferred || is_in_doubt()) root_ = nullptr;
    return transferred;
  }

 private:
  struct Root {
    std::uint64_t fingerprint;
    C container;
  };

  Migratable(Agent& agent, SegmentId id, Root* root) : agent_(&agent), id_(id), root_(root) {}
  C* get() const {
    YONDER_CHECK(root_ != nullptr, "the container was transferred");
    return &root_->container;
  }
  bool is_in_doubt() const {
    for (const Migration& migration : agent_->migrations()) {
      if (migration.id == id_) return migration.state == MigrationState::kInDoubt;
    }
    return false;
  }

  Agent* agent_;
  SegmentId id_;
  Root* root_;  // null: it is not ours any more
};

}  // namespace yonder::segment
