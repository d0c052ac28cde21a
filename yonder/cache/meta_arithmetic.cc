// The meta commands ma and me.
#include <array>
#include <charconv>
#include <optional>

#include "yonder/cache/base64.h"
#include "yonder/cache/executor.h"

namespace yonder::cache {
namespace {

// A number as text.
class Digits {
 public:
  explicit Digits(std::uint64_t number) : end_(std::to_chars(text_.begin(), text_.end(), number).ptr) {}
  std::string_view text() const { return {text_.data(), static_cast<std::size_t>(end_ - text_.data())}; }

 private:
  std::array<char, 20> text_;
  const char* end_;
};

}  // namespace

bool Executor::append_arithmetic_flags(const CommandLine& line, const MetaLine& meta, Item& item,
                                       bool created) {
  for (std::size_t i = 2; i < line.size(); ++i) {
    switch (line[i][0]) {
      case 'c':
        out_.append(" c");
        out_.append_number(shown(item.cas));
        break;
      case 't':
        append_ttl(item);
        break;
      case 'T':
        item.expires = expiry(meta.flags.ttl);
        break;
      case 'N':
        if (created) item.expires = expiry(meta.flags.vivify);
        break;
      case 'O':
        if (!append_opaque(line[i])) return false;
        break;
      case 'k':
        append_key(meta.key(), meta.flags.binary_key);
        break;
      default:
        break;
    }
  }
  return true;
}

Executor::Sum Executor::add_or_create(Partition& partition, const Key& key, const MetaFlags& flags,
                                      bool increment) {
  Sum sum{.reply = partition.add(
              key, {.increment = increment, .delta = flags.delta, .cas = wanted(flags.cas)}, now_)};
  if (sum.reply.outcome != ArithmeticOutcome::kNotFound || !flags.has_vivify) return sum;
  const Digits digits(flags.initial);
  const StoreRequest first{.mode = StoreMode::kAdd, .binary_key = flags.binary_key, .value = digits.text()};
  sum.created = partition.store(key, first, now_).outcome == StoreOutcome::kStored;
  sum.reply = {sum.created ? ArithmeticOutcome::kDone : ArithmeticOutcome::kNoMemory, flags.initial,
               sum.created ? partition.find(key, now_) : nullptr};
  return sum;
}

bool Executor::append_sum(const CommandLine& line, const MetaLine& meta, const Sum& sum) {
  const Digits digits(sum.reply.value);
  out_.append(meta.flags.value ? "VA " : "HD");
  if (meta.flags.value) out_.append_number(digits.text().size());
  if (!append_arithmetic_flags(line, meta, *sum.reply.item, sum.created)) return false;
  out_.append("\r\n");
  if (meta.flags.value) out_.append_line(digits.text());
  return true;
}

Ran Executor::meta_arithmetic(const CommandLine& line, const MetaLine& meta) {
  const MetaFlags& flags = meta.flags;
  const bool increment = flags.mode == 0 || flags.mode == 'I' || flags.mode == '+';
  if (!increment && flags.mode != 'D' && flags.mode != '-') {
    reply("CLIENT_ERROR invalid mode for ma M token");
    return Ran::kDone;
  }
  const Key key(meta.key());
  const std::size_t mark = out_.size();
  Sum sum;
  bool fits = true;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    sum = add_or_create(partition, key, flags, increment);
    if (sum.reply.item != nullptr) fits = append_sum(line, meta, sum);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  const ArithmeticOutcome outcome = sum.reply.outcome;
  if (!sum.created) count_arithmetic(increment, outcome != ArithmeticOutcome::kNotFound);
  if (outcome == ArithmeticOutcome::kNotNumeric) reply(kNotNumeric);
  if (outcome == ArithmeticOutcome::kNoMemory) reply("SERVER_ERROR out of memory");
  if (outcome == ArithmeticOutcome::kNotFound || outcome == ArithmeticOutcome::kCasMismatch) {
    out_.append(outcome == ArithmeticOutcome::kNotFound ? "NF" : "EX");
    fits = append_echo(line, meta);
    out_.append("\r\n");
  }
  // memcached is quiet about a number it changed, not about one it made.
  const bool quiet = flags.quiet && outcome == ArithmeticOutcome::kDone && !sum.created;
  if (quiet || !fits) out_.truncate(mark);
  if (!fits) reply(kOpaqueTooLong);
  return Ran::kDone;
}

// ---------------------------------------------------------------- me

Ran Executor::meta_debug(const CommandLine& line) {
  counters_.add(Count::kCmdMeta);
  if (line.size() < 2 || line[1].size() > kMaxKeyBytes) {
    reply(kBadFormat);
    return Ran::kDone;
  }
  std::array<char, kMaxKeyBytes> decoded;
  std::string_view name = line[1];
  if (line[2] == "b") {
    const std::optional<std::size_t> size = decode_base64(name, decoded);
    if (!size) {
      reply(kBadFormat);
      return Ran::kDone;
    }
    name = {decoded.data(), *size};
  }
  const Key key(name);
  const std::size_t mark = out_.size();
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    const Item* item = partition.find(key, now_);
    if (item == nullptr) return;
    out_.append("ME ");
    if (item->has(kBinaryKey)) {
      const std::size_t length = base64_bytes(item->key_bytes);
      encode_base64(item->key(), {out_.reserve(length), length});
      out_.commit(length);
    } else {
      out_.append(item->key());
    }
    out_.append(" exp=");
    out_.append_signed(item->expires == 0 ? -1 : std::int64_t{now_} - std::int64_t{item->expires});
    out_.append(" la=");
    out_.append_number(now_ - item->accessed);
    out_.append(" cas=");
    out_.append_number(shown(item->cas));
    out_.append(item->has(kFetched) ? " fetch=yes cls=" : " fetch=no cls=");
    out_.append_number(kItemClass);
    out_.append(" size=");
    out_.append_number(item->total_bytes());
    out_.append("\r\n");
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  if (out_.size() == mark) reply("EN");
  return Ran::kDone;
}

}  // namespace yonder::cache
