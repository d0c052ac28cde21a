#include "yonder/client/internal/one_sided_read.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace yonder::client::internal {

using node::BlockEntry;
using node::HeaderWord;
using node::SlotState;
using node::Validator;
using node::protocol::ViewKind;
using Need = OneSidedRead::Need;

Need OneSidedRead::begin() {
  started_ = needs_start() ? clock_.now() : kLongAgo;
  if (retries_ >= kMaxRetries) return Need::kAsk;
  followed_ = false;
  hops_ = 0;
  slot_ = object_.slot();
  const auto known = translations_.find(object_.home());
  // The class is the pointer's word until the table has confirmed it: with another one
  // we would look between the slots.
  if (known && known->entry.size_class() == object_.size_class()) {
    place_ = *known;
  } else {
    // Where the block is if it never moved.
    place_ = {.entry = BlockEntry(map_.guess(object_, shape_), object_.size_class(), 0), .seen = kNeverSeen};
  }
  return prepare();
}

Need OneSidedRead::begin_at(node::ObjectPtr object) {
  object_ = object;
  confirm_ = true;  // It was looked for because the table had changed, perhaps.
  return ++searches_ > kMaxSearches ? Need::kAsk : begin();
}

Need OneSidedRead::begin_again(bool refused) {
  ++retries_;
  if (refused) {
    ++refusals_;
    keys_.forget(object_.home());
    confirm_ = true;
  }
  return begin();
}

Duration OneSidedRead::pause() const {
  constexpr std::int64_t kFirstNs = 500;
  constexpr std::int64_t kLongestNs = 100'000;
  return Duration(std::min(kFirstNs << std::min(retries_, 16u), kLongestNs));
}

void OneSidedRead::add_request(std::span<std::byte> into, fabric::RemoteAddress from) {
  add_request(fabric::LocalPiece::of(into), from);
}

void OneSidedRead::add_request(const fabric::LocalPiece& into, fabric::RemoteAddress from) {
  auto* const piece =
      std::construct_at(reinterpret_cast<fabric::LocalPiece*>(piece_memory_.data()) + request_count_, into);
  std::construct_at(reinterpret_cast<fabric::WorkRequest*>(request_memory_.data()) + request_count_,
                    fabric::WorkRequest{.op = fabric::Op::kRead, .local = {piece, 1}, .remote = from});
  ++request_count_;
}

std::optional<fabric::RemoteAddress> OneSidedRead::in_block(std::uint64_t offset,
                                                            std::uint64_t length) const {
  if (!is_in_view()) return map_.in_frame(place_.entry.frame(), offset, length);
  if (map_.views() == ViewKind::kArena) return map_.in_view(object_.home(), offset, length);
  const auto key = keys_.find(object_.home());
  if (!key) return std::nullopt;
  return fabric::RemoteAddress{.key = *key, .offset = offset};
}

void OneSidedRead::add_object_requests(fabric::RemoteAddress slot, std::uint64_t raw_bytes) {
  has_object_ = true;
  const bool reread = map_.validator() == Validator::kReread;
  if (reread) {
    add_request(std::as_writable_bytes(std::span(&header_before_, 1)), slot);
    if (!out_.empty()) add_request(out_, slot + node::kHeaderBytes);
  } else {
    raw_ = scratch_.take(raw_bytes);
    add_request(raw_.piece(), slot);
  }
  has_second_look_ = reread || (is_in_view() && !map_.is_self_proving());
  if (has_second_look_) add_request(std::as_writable_bytes(std::span(&header_after_, 1)), slot);
}

Need OneSidedRead::prepare() {
  request_count_ = 0;
  has_object_ = false;
  has_key_word_ = lacks_key();
  // A word that is used as it is must be young, unless the copy proves all by itself. A new
  // key comes with the class that its block has: the target would refuse what is beyond it.
  has_table_word_ = !followed_ && (confirm_ || has_key_word_ ||
                                   (!map_.is_self_proving() && started_ - place_.seen > kFresh));
  confirm_ = false;
  if (has_table_word_) {
    const auto word = map_.table_word(object_.home());
    if (!word) return Need::kElsewhere;  // No such block: the node will say so.
    add_request(std::as_writable_bytes(std::span(&table_word_, 1)), *word);
  }
  if (has_key_word_) {
    const auto word = map_.view_key_word(object_.home());
    if (!word) return Need::kElsewhere;
    add_request(std::as_writable_bytes(std::span(&key_word_, 1)), *word);
  } else if (slot_ < shape_.slots) {
    const std::uint64_t offset = std::uint64_t{slot_} * shape_.slot_bytes;
    const auto phase = static_cast<std::uint32_t>(offset % node::kLineBytes);
    const std::uint64_t bytes = layout().raw_bytes(out_.size(), phase);
    if (const auto slot = in_block(offset, bytes)) add_object_requests(*slot, bytes);
  }
  if (has_object_ || has_table_word_) return Need::kFetch;
  // Nothing to fetch: the slot is none of its class, or lies where we know nothing.
  if (slot_ >= shape_.slots) return Need::kElsewhere;
  // A guess may name a frame that never was.
  const bool known = map_.knows(place_.entry.frame());
  return known || !is_confirmed(clock_.now()) ? look_again(true) : Need::kUnknown;
}

Need OneSidedRead::look_again(bool confirm) {
  ++retries_;
  if (confirm) {
    followed_ = false;
    hops_ = 0;
    slot_ = object_.slot();
    confirm_ = true;
  }
  started_ = clock_.now();
  return prepare();
}

Need OneSidedRead::judge() {
  if (has_table_word_) {
    Need need = Need::kDone;
    if (!take_table_word(need)) return need;
  }
  if (has_key_word_) {
    if (key_word_ == 0) return Need::kElsewhere;  // No such block: the node will say so.
    keys_.put(object_.home(), {key_word_});
    return look_again(false);
  }
  if (!has_object_) {
    if (slot_ >= shape_.slots) return Need::kElsewhere;
    return map_.knows(place_.entry.frame()) ? look_again(false) : Need::kUnknown;
  }
  return judge_copy();
}

// False: what was fetched of the object is not worth looking at; `need` says what next.
bool OneSidedRead::take_table_word(Need& need) {
  const BlockEntry entry(table_word_);
  if (!entry.valid() || entry.size_class() != object_.size_class()) {
    place_.seen = started_;
    need = Need::kElsewhere;
    return false;
  }
  const bool same = is_in_view() || entry.frame() == place_.entry.frame();
  place_ = {.entry = entry, .seen = started_};
  translations_.put(object_.home(), place_);
  if (same) return true;
  need = map_.knows(entry.frame()) ? look_again(false) : Need::kUnknown;
  return false;
}

Need OneSidedRead::judge_copy() {
  HeaderWord word(header_before_);
  if (map_.validator() != Validator::kReread) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, raw_.bytes().data(), sizeof bits);
    word = HeaderWord(bits);
  }
  if (!word.names(object_.home(), object_.id())) {
    if (word.is_moved() && is_confirmed(clock_.now())) return follow(word);
    // A word that was true a moment ago is good enough to accept an object by, but
    // not to give one up.
    return has_table_word_ ? Need::kElsewhere : look_again(true);
  }
  if (word.state() == SlotState::kWriting) {
    ++retries_;
    return Need::kPause;
  }
  if (is_proven(word)) return accept(word);
  // Torn, or too slow, or not of the class that the pointer says: the table knows.
  if (!has_table_word_) return look_again(true);
  ++retries_;
  return Need::kPause;
}

bool OneSidedRead::is_in_time() const {
  const Instant now = clock_.now();
  return is_confirmed(now) && now - started_ < node::kVersionWrapBound;
}

bool OneSidedRead::is_proven(HeaderWord word) {
  if (word.is_blank()) {
    // The word is the proof, and nothing but its place vouches for it: S1.
    std::ranges::fill(out_, std::byte{0});
    return is_in_time();
  }
  if (has_second_look_ && !(proves_copy(word, HeaderWord(header_after_)) && is_in_time())) return false;
  if (map_.validator() == Validator::kReread) return true;
  const std::uint64_t offset = std::uint64_t{slot_} * shape_.slot_bytes;
  const auto phase = static_cast<std::uint32_t>(offset % node::kLineBytes);
  if (!layout().decode(raw_.bytes(), phase, out_)) return false;
  return map_.is_self_proving() || is_in_time();
}

Need OneSidedRead::accept(HeaderWord word) {
  version_ = node::ObjectVersion(word.version());
  object_ = object_.with_slot(slot_);
  return Need::kDone;
}

// The block is on its way to another frame, and the object is there already.
Need OneSidedRead::follow(HeaderWord moved) {
  if (++hops_ > kMaxHops || moved.slot() >= shape_.slots) return look_again(true);
  followed_ = true;
  place_.entry = BlockEntry(moved.frame(), object_.size_class(), 0);
  slot_ = moved.slot();
  return map_.knows(moved.frame()) ? look_again(false) : Need::kUnknown;
}

}  // namespace yonder::client::internal
