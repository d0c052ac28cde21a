#include "yonder/fabric/shm/internal/key_table.h"

namespace yonder::fabric::shm {

void KeyTable::place(const Attachment& attachment) {
  std::size_t i = home(attachment.key);
  while (places_[i].key != 0 && places_[i].key != attachment.key) i = (i + 1) & (places_.size() - 1);
  if (places_[i].key == 0) ++size_;
  places_[i] = attachment;
}

void KeyTable::grow() {
  std::vector<Attachment> old(places_.size() * 2);
  old.swap(places_);
  size_ = 0;
  for (const Attachment& attachment : old) {
    if (attachment.key != 0) place(attachment);
  }
}

void KeyTable::insert(const Attachment& attachment, os::Mapping mapping) {
  if ((size_ + 1) * 2 > places_.size()) grow();
  place(attachment);
  ++epoch_;
  if (mapping.valid()) {
    mappings_[attachment.key] = std::move(mapping);
  } else {
    mappings_.erase(attachment.key);
  }
}

void KeyTable::erase(RegionKey key) {
  ++epoch_;
  mappings_.erase(key.value);
  std::size_t hole = home(key.value);
  while (places_[hole].key != key.value) {
    if (places_[hole].key == 0) return;
    hole = (hole + 1) & (places_.size() - 1);
  }
  // Closes the gap: whatever a probe would now miss moves up.
  const std::size_t mask = places_.size() - 1;
  for (std::size_t i = (hole + 1) & mask; places_[i].key != 0; i = (i + 1) & mask) {
    const std::size_t wanted = home(places_[i].key);
    if (((i - wanted) & mask) >= ((i - hole) & mask)) {
      places_[hole] = places_[i];
      hole = i;
    }
  }
  places_[hole] = Attachment();
  --size_;
}

void KeyTable::clear() {
  ++epoch_;
  mappings_.clear();
  places_.assign(kInitial, Attachment());
  size_ = 0;
}

}  // namespace yonder::fabric::shm
