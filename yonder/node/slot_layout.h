#pragma once
// SlotLayout: how header, payload and what the validator adds lie in a slot.
//
//   reread     | header 8 | payload …
//   checksum   | header 8 | checksum 4 | payload …
//   lines      | header 8 | payload … | v | payload 63 | v | payload 63 | …
//                                       ^ every byte whose address is a multiple of 64
//
// *lines*: a version byte opens every cache line after the one with the header,
// so its places depend on where the slot lies (the phase: slot address mod 64),
// and an object that moves to another phase is laid out anew. A line's byte is
// (version mod 255) + 1 when the line is of that version, and 0 while the line is
// being written or was never written. A reader that gets each line whole accepts
// a copy if all bytes fit the header's version.
//
// *checksum*: 32 bits (checksum.h) over the whole payload, seeded with the header's
// identity and version, so bytes of another object or version never fit. It
// covers the slot's capacity, not the object's size: whoever moves or writes an
// object need not know how much of it the program uses.
//
// A blank object (header_word.h) has no payload in its slot yet, and no checksum or
// line versions: its first write lays out all of it.
//
// The payload may be written only by whoever holds the header in state writing,
// or owns a slot no pointer leads to (H1 of header_word.h).
//
// Concurrency: a value; its functions race with one-sided readers by design
// (sync/shared_copy.h). Lifetime: keeps nothing.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "yonder/node/header_word.h"
#include "yonder/node/size_class.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::node {

class SlotLayout {
 public:
  constexpr SlotLayout(Validator validator, std::uint64_t slot_bytes)
      : validator_(validator), slot_bytes_(slot_bytes), capacity_(capacity_of(validator, slot_bytes)) {}

  // Payload bytes of a slot in its worst phase.
  constexpr std::uint64_t capacity() const { return capacity_; }
  constexpr Validator validator() const { return validator_; }
  constexpr std::uint64_t slot_bytes() const { return slot_bytes_; }

  // Whether a new object must be blank. `fresh`: its slot was never used, so its
  // memory is zero, and without checksum or line versions that is a payload.
  static constexpr bool starts_blank(Validator validator, bool fresh) {
    return !fresh || validator != Validator::kReread;
  }
  // The first write: the payload becomes `data` and then zeros, valid under the
  // version of `word`. Requires data.size() ≤ capacity().
  void store_first(std::byte* slot, HeaderWord word, std::span<const std::byte> data) const;
  // Replaces the first bytes of a payload that is not blank; what remains stays. The
  // whole is valid under the version of `word`. Requires data.size() ≤ capacity().
  void store(std::byte* slot, HeaderWord word, std::span<const std::byte> data) const;
  // The payload stays but belongs to another identity from now on.
  void reseal(std::byte* slot, HeaderWord word) const {
    if (validator_ == Validator::kChecksum && !word.is_blank()) store_checksum(slot, word);
  }
  // Copies the first bytes of the payload of an object that is not blank out,
  // unchecked: look at the header before and after. Requires out.size() ≤ capacity().
  void load(const std::byte* slot, std::span<std::byte> out) const {
    if (validator_ == Validator::kReread) [[likely]] {
      sync::shared_copy(out.data(), slot + kHeaderBytes, out.size());
    } else {
      load_other(slot, out);
    }
  }
  // Copies payload and validation of `word`'s version to another slot of the same
  // size. Of a blank object there is nothing to copy.
  void move(const std::byte* from, std::byte* to, HeaderWord word) const;

  // For one-sided readers: how many bytes from the slot's start to copy in order
  // to get `bytes` of payload, and what the copy says. `phase` is the slot's
  // address mod 64. decode() returns the header; `out` is filled only if the word
  // is_readable(), with zeros if it is blank. Without a value, the copy is torn: read again. The validator
  // reread proves nothing by itself, unless the word is blank: compare with a second
  // look at the header (proves_copy).
  std::uint64_t raw_bytes(std::uint64_t bytes, std::uint32_t phase) const;
  std::optional<HeaderWord> decode(std::span<const std::byte> raw, std::uint32_t phase,
                                   std::span<std::byte> out) const;

  // The byte that opens the lines of a version; never 0.
  static constexpr std::byte line_byte(std::uint32_t version) {
    return static_cast<std::byte>(version % 255 + 1);
  }

 private:
  static constexpr std::uint64_t capacity_of(Validator validator, std::uint64_t slot_bytes) {
    const std::uint64_t room = slot_bytes - kHeaderBytes;
    if (validator == Validator::kReread) return room;
    if (validator == Validator::kChecksum) return room - kChecksumBytes;
    return room - (room + kLineBytes - 1) / kLineBytes;  // Worst phase: a byte in every 64.
  }
  void load_other(const std::byte* slot, std::span<std::byte> out) const;
  void store_lines(std::byte* slot, HeaderWord word, std::span<const std::byte> data, bool zero_rest) const;
  void store_checksum(std::byte* slot, HeaderWord word) const;
  void move_lines(const std::byte* from, std::byte* to, HeaderWord word) const;

  Validator validator_;
  std::uint64_t slot_bytes_;
  std::uint64_t capacity_;
};

}  // namespace yonder::node
