#pragma once
// OneSidedRead: the decisions of a reader that only has copies to go by.
//
// A machine without input and output: it says which bytes to fetch, is shown them,
// and decides. Whoever drives it (session_reads.cc) blocks, awaits or batches.
//
//   begin ──► kFetch ──► judge ──► kDone     the object's value, proven
//                ▲         ├─────► kFetch    another place, or the same again
//                │         ├─────► kPause    somebody is writing it
//                │         ├─────► kUnknown  a superblock we have not heard of
//                └─────────┼─────► kElsewhere  not at its slot: ask, scan, or tell
//                          └─────► kAsk      it has no rest: let the node read it
//
// What a fetch holds, in post order (E1 of endpoint.h: it takes effect in that order):
//   [table word]  if the translation must be confirmed
//   [key word]    instead of the object, if its block is a region whose key is not known
//   reread        header | payload, into the caller's memory | header
//   lines,        the slot from its start, into a buffer; lines of a view: | header
//   checksum
//
// Where the object is looked for: in the frame that the table names, or, if the node remaps
// its blocks (block_views.h), in the view of its block, by the id alone; spans and objects
// that have just moved are looked for in frames always.
//
// Why what comes out is a value of the object in the time of the call:
//   S1  The bytes are those of the object. The header names it (home block and id),
//       and a header is a header because the place was one: its frame is the one
//       that the table named at a moment less than kVersionWrapBound before the
//       fetch ended, and a frame is not used for anything else within two such
//       times of leaving the table (frame_store.h, quarantine). With a checksum the
//       copy proves that by itself (32 bits over identity, version and payload,
//       besides the 42 bits of identity), so a translation of any age will do, or
//       a guess. (Not for a blank object: it has no checksum.) A view shows the frame
//       that the block has at the moment of each access, so only the class is to be
//       confirmed, by a word that young: an id rests for two such times before it means
//       slots of another size (V4 of block_views.h).
//   S2  They are one version. reread: header and payload and header were loaded in
//       this order, and H2 of header_word.h; lines: every line was fetched whole
//       and has the header's version; checksum: it fits. A blank object is all zeros.
//       A view that was switched meanwhile gave parts of two frames: V3 says why the
//       second look at the header, or the checksum, finds out.
//   S3  The version was the newest at the moment of the (first) header's load: a
//       header that says live or moving is only changed before the next write is
//       acknowledged, and H3 keeps it from being overtaken by one at another place.
//   S4  Versions did not wrap: the fetch took less than kVersionWrapBound.
// What does not fit is not an answer but a reason to look again. That an object
// does not exist is never concluded here: the node says so.
//
// The clock is read twice per fetch, and not at all where the copy proves itself and nothing was
// wrong: an emulated or a fast NIC answers in the time of some dozens of such looks.
//
// Concurrency: the session's thread. Lifetime: borrows map, clock, translations, pointer
// and output; while a fetch is under way the machine must stay where it is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "yonder/base/time.h"
#include "yonder/client/internal/node_map.h"
#include "yonder/client/internal/scratch.h"
#include "yonder/client/internal/translations.h"
#include "yonder/client/internal/view_keys.h"
#include "yonder/fabric/types.h"
#include "yonder/node/header_word.h"
#include "yonder/node/heap.h"
#include "yonder/node/object_ptr.h"

namespace yonder::client::internal {

class OneSidedRead {
 public:
  enum class Need : std::uint8_t { kFetch, kPause, kUnknown, kElsewhere, kAsk, kDone };

  // Requires that map.check() accepts pointer and size.
  OneSidedRead(const NodeMap& map, const Clock& clock, Translations& translations, ViewKeys& keys,
               ScratchPool& scratch, node::ObjectPtr object, std::span<std::byte> out)
      : map_(map),
        clock_(clock),
        translations_(translations),
        keys_(keys),
        scratch_(scratch),
        shape_(map.shape_of(object)),
        object_(object),
        out_(out) {}
  OneSidedRead(const OneSidedRead&) = delete;
  OneSidedRead& operator=(const OneSidedRead&) = delete;

  // Prepares the next fetch: the first one, and one after kPause or kUnknown.
  Need begin();
  // The same for another hint, after kElsewhere.
  Need begin_at(node::ObjectPtr object);
  // The same after a fetch that failed. `refused`: the target did not accept a key.
  Need begin_again(bool refused);
  // Looks at what was fetched.
  Need judge();

  // kFetch: what to read. Valid until the next call.
  std::span<fabric::WorkRequest> requests() {
    return {reinterpret_cast<fabric::WorkRequest*>(request_memory_.data()), request_count_};
  }
  // kDone.
  node::ObjectVersion version() const { return version_; }
  // The pointer, with the slot where the object was found.
  node::ObjectPtr object() const { return object_; }
  // kElsewhere: the frame that holds the object's block, as the table said at `seen`.
  Translation translation() const { return place_; }
  std::span<std::byte> output() const { return out_; }
  // How often it had to look again.
  std::uint32_t retries() const { return retries_; }
  Duration pause() const;
  // How often a key was refused: more than once is not explained by an id that was given
  // back meanwhile.
  std::uint32_t refusals() const { return refusals_; }

 private:
  // How long a word of the table is used without looking again: leaves the fetch
  // as much time as the word has.
  static constexpr Duration kFresh = node::kVersionWrapBound / 2;
  static constexpr std::uint32_t kMaxHops = 8;
  // Copies until it is cheaper to ask: an object under constant writing is locked for
  // most of the time, and the node knows when it is not.
  static constexpr std::uint32_t kMaxRetries = 32;
  // Searches until it is cheaper to ask: what was found is not there again while a block
  // whose objects have left is not switched.
  static constexpr std::uint32_t kMaxSearches = 4;

  // Clocks begin at 0. A fetch that began so long ago was not in time (S4); a translation that was
  // never seen is confirmed at no moment (S1), not even at that one.
  static constexpr Instant kLongAgo = Instant::from_ns(-node::kVersionWrapBound.count());
  static constexpr Instant kNeverSeen = Instant::from_ns(-2 * node::kVersionWrapBound.count());
  // Whether the first fetch must know when it began. A copy that proves itself needs no moment; should
  // it turn out to be a blank object, or not the object, the next fetch looks.
  bool needs_start() const { return !map_.is_self_proving() || confirm_ || lacks_key(); }

  Need prepare();
  Need look_again(bool confirm);
  // Looks for the object in its block's view.
  bool is_in_view() const {
    return map_.has_views() && !followed_ && object_.size_class() != node::kSpanClass;
  }
  bool lacks_key() const {
    return map_.views() == node::protocol::ViewKind::kKeys && is_in_view() && !keys_.find(object_.home());
  }
  // Bytes of the block, where they are looked for; nullopt: unknown.
  std::optional<fabric::RemoteAddress> in_block(std::uint64_t offset, std::uint64_t length) const;
  node::SlotLayout layout() const { return node::SlotLayout(map_.validator(), shape_.slot_bytes); }
  void add_request(std::span<std::byte> into, fabric::RemoteAddress from);
  void add_request(const fabric::LocalPiece& into, fabric::RemoteAddress from);
  void add_object_requests(fabric::RemoteAddress slot, std::uint64_t raw_bytes);
  bool take_table_word(Need& need);
  Need judge_copy();
  Need accept(node::HeaderWord word);
  bool is_proven(node::HeaderWord word);
  Need follow(node::HeaderWord moved);
  bool is_confirmed(Instant now) const { return now - place_.seen < node::kVersionWrapBound; }

  // The fetch ended in time for what was fetched to be believed without a checksum.
  bool is_in_time() const;

  const NodeMap& map_;
  const Clock& clock_;
  Translations& translations_;
  ViewKeys& keys_;
  ScratchPool& scratch_;
  const SlotShape shape_;  // Of the object's class, which no correction changes.
  node::ObjectPtr object_;
  const std::span<std::byte> out_;

  Translation place_;       // Where to look; `seen` is long ago for a guess.
  std::uint32_t slot_ = 0;  // … and in which slot.
  bool confirm_ = false;    // Fetch the table's word along.
  bool followed_ = false;   // place_ is where a moved word led.
  std::uint32_t hops_ = 0;
  std::uint32_t retries_ = 0;
  std::uint32_t searches_ = 0;
  std::uint32_t refusals_ = 0;
  Instant started_;  // Of the fetch, or earlier.

  // The fetch.
  bool has_table_word_ = false;
  bool has_key_word_ = false;
  bool has_object_ = false;
  bool has_second_look_ = false;
  std::uint64_t table_word_ = 0;
  std::uint64_t key_word_ = 0;
  std::uint64_t header_before_ = 0;
  std::uint64_t header_after_ = 0;
  Scratch raw_;
  std::uint32_t request_count_ = 0;
  // Not initialised: most reads need one of them, and clearing four would cost as much as
  // all else that is done before the fetch.
  static constexpr std::size_t kMaxRequests = 4;
  alignas(fabric::LocalPiece) std::array<std::byte, kMaxRequests * sizeof(fabric::LocalPiece)> piece_memory_;
  alignas(
      fabric::WorkRequest) std::array<std::byte, kMaxRequests * sizeof(fabric::WorkRequest)> request_memory_;

  node::ObjectVersion version_;
};

}  // namespace yonder::client::internal
