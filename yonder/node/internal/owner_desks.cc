#include "yonder/node/internal/owner_desks.h"

#include <thread>

#include "yonder/base/check.h"
#include "yonder/sync/spin.h"

namespace yonder::node::internal {

OwnerDesks::OwnerDesks(const Options& options)
    : options_(options), notes_(std::make_unique<Note[]>(options.threads)) {
  YONDER_CHECK(options.desks > 0, "a block belongs to a desk");
  for (std::uint32_t i = 0; i < options.desks; ++i) desks_.push_back(std::make_unique<Desk>());
}

// relaxed: whether somebody sits there decides how long an asker waits, not what it gets.
void OwnerDesks::arrive(std::uint32_t thread) {
  desks_[thread % desks_.size()]->sitting.fetch_add(1, std::memory_order_relaxed);
}

void OwnerDesks::leave(std::uint32_t thread) {
  desks_[thread % desks_.size()]->sitting.fetch_sub(1, std::memory_order_relaxed);
}

// ---------------------------------------------------------------- news

void OwnerDesks::put(BlockId home, ObjectId id, std::uint32_t slot) {
  tell(desk_of(home), {.identity = identity(home, id), .value = slot, .kind = Kind::kPut});
}

void OwnerDesks::erase(BlockId home, ObjectId id) {
  tell(desk_of(home), {.identity = identity(home, id), .kind = Kind::kErase});
}

// News are not lost: a table that keeps what is gone would grow for ever. They are no
// reason to call the owner either: they are read before the next answer, or here, a
// mailbox at a time.
void OwnerDesks::tell(Desk& desk, const Letter& letter) {
  while (!desk.mail.try_push(letter)) {
    // Whoever has the turn is making room, and holds it for one mailbox.
    if (!try_read_mail(desk)) std::this_thread::yield();
  }
}

// ---------------------------------------------------------------- questions

bool OwnerDesks::is_worth_waiting_for(std::uint32_t asker, const Desk& desk) const {
  if (&desk == desks_[asker % desks_.size()].get()) return false;
  // relaxed: a matter of speed alone.
  return desk.sitting.load(std::memory_order_relaxed) != 0 &&
         (desk.signs.load(std::memory_order_relaxed) & kNeglected) == 0;
}

std::optional<std::uint32_t> OwnerDesks::find(std::uint32_t asker, BlockId home, ObjectId id) {
  Note& note = notes_[asker];
  Desk& desk = desk_of(home);
  const std::uint32_t courtesy = is_worth_waiting_for(asker, desk) ? options_.courtesy : 0;
  const std::uint64_t question = std::uint64_t{++note.number} << 32;
  // relaxed: the letter carries it to who answers.
  note.word.store(question | kOpen, std::memory_order_relaxed);
  tell(desk, {.identity = identity(home, id), .value = note.number, .asker = asker, .kind = Kind::kAsk});
  // release: pairs with the acquire in read_mail(). Who clears the sign finds the letter;
  // who cleared it before leaves this one.
  if (courtesy != 0) desk.signs.fetch_or(kAsked, std::memory_order_release);
  bool had_turn = false;
  for (std::uint32_t looks = 0; looks < options_.patience; ++looks) {
    // acquire: pairs with the exchange in act_on(); what the table knew is known here.
    const std::uint64_t word = note.word.load(std::memory_order_acquire);
    if (word != (question | kOpen)) {
      (had_turn ? note.by_asker : note.by_others).add(1);
      const auto answer = static_cast<std::uint32_t>(word);
      return answer == kUnknown ? std::nullopt : std::optional(answer);
    }
    if (looks >= courtesy && try_read_mail(desk)) {
      had_turn = true;
      if (courtesy != 0) desk.signs.fetch_or(kNeglected, std::memory_order_relaxed);
      continue;
    }
    serve(asker);  // Who is asked may be waiting for us.
    sync::cpu_pause();
  }
  note.unanswered.add(1);
  return std::nullopt;  // D3
}

void OwnerDesks::attend(Desk& desk) {
  // relaxed: the owner is here; who thinks otherwise for a moment answers itself.
  desk.signs.fetch_and(~kNeglected, std::memory_order_relaxed);
  try_read_mail(desk);
}

bool OwnerDesks::try_read_mail(Desk& desk) {
  if (!desk.turn.try_lock()) return false;
  read_mail(desk);
  desk.turn.unlock();
  return true;
}

void OwnerDesks::read_mail(Desk& desk) {
  // acquire: pairs with the release in find(). Before the mail is read, not after: a
  // question that comes meanwhile leaves its sign.
  desk.signs.fetch_and(~kAsked, std::memory_order_acquire);
  Letter letter;
  for (std::size_t i = 0; i < kMailbox && desk.mail.try_pop(letter); ++i) act_on(desk, letter);
}

void OwnerDesks::act_on(Desk& desk, const Letter& letter) {
  switch (letter.kind) {
    case Kind::kPut:
      desk.slots[letter.identity] = letter.value;
      return;
    case Kind::kErase:
      desk.slots.erase(letter.identity);
      return;
    case Kind::kAsk: {
      const auto found = desk.slots.find(letter.identity);
      const std::uint64_t question = std::uint64_t{letter.value} << 32;
      std::uint64_t expected = question | kOpen;
      // release: pairs with the acquire in find(). D3: a failure means that nobody waits.
      notes_[letter.asker].word.compare_exchange_strong(
          expected, question | (found == desk.slots.end() ? kUnknown : found->second),
          std::memory_order_release, std::memory_order_relaxed);
      return;
    }
  }
}

// ---------------------------------------------------------------- looking at it

OwnerAnswers OwnerDesks::answers() const {
  OwnerAnswers out;
  for (std::uint32_t i = 0; i < options_.threads; ++i) {
    out.by_others += notes_[i].by_others.get();
    out.by_asker += notes_[i].by_asker.get();
    out.unanswered += notes_[i].unanswered.get();
  }
  return out;
}

void OwnerDesks::visit(const std::function<void(BlockId, ObjectId, std::uint32_t)>& each) {
  for (const auto& owned : desks_) {
    Desk& desk = *owned;
    sync::SpinGuard guard(desk.turn);
    read_mail(desk);
    for (const auto& [identity, slot] : desk.slots) {
      each(BlockId(static_cast<std::uint32_t>(identity >> kObjectIdBits)),
           ObjectId(static_cast<std::uint16_t>(identity)), slot);
    }
  }
}

}  // namespace yonder::node::internal
