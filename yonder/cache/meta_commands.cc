// The meta commands: mg, ms, md, ma, me.
#include <array>
#include <optional>

#include "yonder/cache/base64.h"
#include "yonder/cache/executor.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kOpaqueTooLong = "CLIENT_ERROR opaque token too long";
constexpr int kPiecewiseTries = 3;

std::string_view code_of(StoreOutcome outcome) {
  switch (outcome) {
    case StoreOutcome::kStored:
      return "HD";
    case StoreOutcome::kExists:
      return "EX";
    case StoreOutcome::kNotFound:
      return "NF";
    case StoreOutcome::kNotStored:
    case StoreOutcome::kTooLarge:
    case StoreOutcome::kNoMemory:
      return "NS";
  }
  return "NS";
}

}  // namespace

// ---------------------------------------------------------------- parts of replies

bool Executor::append_opaque(std::string_view token) {
  if (token.size() > kMaxOpaqueBytes) return false;
  out_.append(' ');
  out_.append(token);
  return true;
}

void Executor::append_key(std::string_view key, bool binary) {
  out_.append(" k");
  if (!binary) return out_.append(key);
  const std::size_t length = base64_bytes(key.size());
  encode_base64(key, {out_.reserve(length), length});
  out_.commit(length);
  out_.append(" b");
}

void Executor::append_ttl(const Item& item) {
  if (item.expires == 0) return out_.append(" t-1");
  out_.append(" t");
  out_.append_number(item.expires - now_);
}

bool Executor::append_echo(const CommandLine& line, const MetaLine& meta) {
  for (std::size_t i = 2; i < line.size(); ++i) {
    if (line[i][0] == 'O' && !append_opaque(line[i])) return false;
    if (line[i][0] == 'k') append_key(meta.key(), meta.flags.binary_key);
  }
  return true;
}

// ---------------------------------------------------------------- mg

Ran Executor::meta_get(const CommandLine& line, const MetaLine& meta) {
  const Key key(meta.key());
  bool again = false;
  for (int i = 0; i < kPiecewiseTries; ++i) {
    // A token that was won is won once, and an item whose time was set may have expired by
    // that: such a reply cannot be made a second time.
    const bool whole =
        i + 1 == kPiecewiseTries || meta.flags.has_vivify || meta.flags.has_recache || meta.flags.has_ttl;
    const Ran ran = meta_get_once(line, meta, key, whole, again);
    if (!again) return ran;
  }
  return Ran::kDone;
}

Item* Executor::vivify(Partition& partition, const Key& key, const MetaLine& meta) {
  const StoreRequest stub{.mode = StoreMode::kAdd, .binary_key = meta.flags.binary_key};
  if (partition.store(key, stub, now_).outcome != StoreOutcome::kStored) return nullptr;
  return partition.find(key, now_);
}

Ran Executor::meta_get_once(const CommandLine& line, const MetaLine& meta, const Key& key, bool whole,
                            bool& again) {
  const std::size_t mark = out_.size();
  bool hit = false;
  bool too_long = false;
  LongValue rest;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    partition.count_fetch();
    Item* item = partition.find(key, now_);
    const bool created = item == nullptr && meta.flags.has_vivify;
    if (created) item = vivify(partition, key, meta);
    hit = item != nullptr;
    if (!hit) return;
    out_.append(meta.flags.value ? "VA " : "HD");
    if (meta.flags.value) out_.append_number(item->value_bytes);
    bool won = false;
    too_long = !append_get_flags(line, meta, *item, created, won);
    if (too_long) return;
    const bool stale = item->has(kStale);
    if (item->has(kTokenSent)) out_.append(" Z");
    if (stale) out_.append(" X");
    won = won || (stale && !item->has(kTokenSent));
    if (won) {
      out_.append(" W");
      item->set(kTokenSent);
    }
    if (!meta.flags.no_bump) partition.bump(*item, now_);
    out_.append("\r\n");
    if (meta.flags.value) append_value(*item, whole || won, rest);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  again = rest.bytes != 0 && !append_long_value(key, rest);
  if (again || too_long) {
    out_.truncate(mark);
    if (too_long) reply(kOpaqueTooLong);
    return Ran::kDone;
  }
  if (hit && meta.flags.has_ttl) {
    counters_.add(Count::kCmdTouch);
    counters_.add(Count::kTouchHits);
  } else {
    counters_.add(Count::kCmdGet);
    counters_.add(hit ? Count::kGetHits : Count::kGetMisses);
  }
  if (hit) return Ran::kDone;
  out_.append("EN");
  if (!append_echo(line, meta)) {
    out_.truncate(mark);
    reply(kOpaqueTooLong);
  } else if (meta.flags.quiet) {
    out_.truncate(mark);
  } else {
    out_.append("\r\n");
  }
  return Ran::kDone;
}

bool Executor::append_get_flags(const CommandLine& line, const MetaLine& meta, Item& item, bool created,
                                bool& won) {
  for (std::size_t i = 2; i < line.size(); ++i) {
    switch (line[i][0]) {
      case 'T':
        item.expires = expiry(meta.flags.ttl);
        break;
      case 'N':
        if (!created) break;
        item.expires = expiry(meta.flags.vivify);
        won = true;
        break;
      case 'R':
        won = won || (!item.has(kTokenSent) && !created && item.expires != 0 &&
                      item.expires < expiry(meta.flags.recache));
        break;
      case 's':
        out_.append(" s");
        out_.append_number(item.value_bytes);
        break;
      case 't':
        append_ttl(item);
        break;
      case 'c':
        out_.append(" c");
        out_.append_number(item.cas);
        break;
      case 'f':
        out_.append(" f");
        out_.append_number(item.flags());
        break;
      case 'l':
        out_.append(" l");
        out_.append_number(now_ - item.accessed);
        break;
      case 'h':
        out_.append(item.has(kFetched) ? " h1" : " h0");
        break;
      case 'O':
        if (!append_opaque(line[i])) return false;
        break;
      case 'k':
        append_key(item.key(), item.has(kBinaryKey));
        break;
      default:
        break;
    }
  }
  return true;
}

// ---------------------------------------------------------------- ms

bool Executor::refuse_large(const MetaLine& meta) {
  const std::size_t limit = service_.options().max_item_bytes;
  if (stored_bytes(meta.key_size, meta.flags.client_flags, meta.value_bytes) <= limit) return false;
  counters_.add(Count::kStoreTooLarge);
  drop_key(meta.key());
  reply(kTooLarge);
  return true;
}

Ran Executor::meta_set(const CommandLine& line, const MetaLine& meta, StoreMode mode,
                       std::string_view value) {
  const MetaFlags& flags = meta.flags;
  const Key key(meta.key());
  const StoreRequest request{.mode = mode,
                             .flags = flags.client_flags,
                             .expires = flags.has_ttl ? expiry(flags.ttl) : 0,
                             .cas = flags.cas,
                             .accept_stale = flags.invalidate,
                             .binary_key = flags.binary_key,
                             .value = value};
  StoreReply answer{StoreOutcome::kNotStored};
  if (service_.store().store(key, request, now_, answer) == Access::kElsewhere) return Ran::kElsewhere;
  count_store(mode, answer.outcome);
  if (answer.outcome == StoreOutcome::kNoMemory) {
    drop_key(meta.key());
    reply(kNoMemory);
    return Ran::kDone;
  }
  if (flags.quiet && answer.outcome == StoreOutcome::kStored) return Ran::kDone;
  out_.append(code_of(answer.outcome));
  for (std::size_t i = meta.first_flag; i < line.size(); ++i) {
    if (line[i][0] == 'O') append_opaque(line[i]);
    if (line[i][0] == 'k') append_key(meta.key(), flags.binary_key);
    if (line[i][0] != 'c') continue;
    out_.append(" c");
    out_.append_number(answer.cas);
  }
  out_.append("\r\n");
  return Ran::kDone;
}

// ---------------------------------------------------------------- md

Ran Executor::meta_delete(const CommandLine& line, const MetaLine& meta) {
  const MetaFlags& flags = meta.flags;
  const Key key(meta.key());
  for (std::size_t i = meta.first_flag; i < line.size(); ++i) {
    if (line[i][0] != 'O' || line[i].size() <= kMaxOpaqueBytes) continue;
    reply(kOpaqueTooLong);
    return Ran::kDone;
  }
  std::string_view code = "NF";
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    Item* item = partition.find(key, now_);
    if (item == nullptr) return;
    if (flags.has_cas && item->cas != flags.cas) {
      code = "EX";
      return;
    }
    code = "HD";
    if (!flags.invalidate) return partition.erase(key, *item);
    if (flags.has_ttl) item->expires = expiry(flags.ttl);
    item->set(kStale);
    item->clear(kTokenSent);
    partition.renew_cas(*item);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  if (code == "HD") {
    if (!flags.invalidate) counters_.add(Count::kDeleteHits);
    if (flags.quiet) return Ran::kDone;
  } else {
    counters_.add(Count::kDeleteMisses);
  }
  out_.append(code);
  append_echo(line, meta);
  out_.append("\r\n");
  return Ran::kDone;
}

// ---------------------------------------------------------------- ma

bool Executor::append_arithmetic_flags(const CommandLine& line, const MetaLine& meta, Item& item,
                                       bool created) {
  for (std::size_t i = 2; i < line.size(); ++i) {
    switch (line[i][0]) {
      case 'c':
        out_.append(" c");
        out_.append_number(item.cas);
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

Ran Executor::meta_arithmetic(const CommandLine& line, const MetaLine& meta) {
  const MetaFlags& flags = meta.flags;
  const bool increment = flags.mode == 0 || flags.mode == 'I' || flags.mode == '+';
  if (!increment && flags.mode != 'D' && flags.mode != '-') {
    reply("CLIENT_ERROR invalid mode for ma M token");
    return Ran::kDone;
  }
  const Key key(meta.key());
  const std::size_t mark = out_.size();
  ArithmeticReply answer{ArithmeticOutcome::kNotFound};
  bool created = false;
  bool too_long = false;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    answer = partition.add(key, {.increment = increment, .delta = flags.delta, .cas = flags.cas}, now_);
    if (answer.outcome == ArithmeticOutcome::kNotFound && flags.has_vivify) {
      std::array<char, 20> digits;
      char* end = std::to_chars(digits.data(), digits.data() + digits.size(), flags.initial).ptr;
      const StoreRequest first{.mode = StoreMode::kAdd,
                               .binary_key = flags.binary_key,
                               .value = {digits.data(), static_cast<std::size_t>(end - digits.data())}};
      created = partition.store(key, first, now_).outcome == StoreOutcome::kStored;
      answer = {created ? ArithmeticOutcome::kDone : ArithmeticOutcome::kNoMemory, flags.initial,
                created ? partition.find(key, now_) : nullptr};
    }
    if (answer.item == nullptr) return;
    std::array<char, 20> digits;
    char* end = std::to_chars(digits.data(), digits.data() + digits.size(), answer.value).ptr;
    const std::string_view number(digits.data(), static_cast<std::size_t>(end - digits.data()));
    out_.append(flags.value ? "VA " : "HD");
    if (flags.value) out_.append_number(number.size());
    too_long = !append_arithmetic_flags(line, meta, *answer.item, created);
    out_.append("\r\n");
    if (flags.value) out_.append_line(number);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  if (!created) count_arithmetic(increment, answer.outcome != ArithmeticOutcome::kNotFound);
  switch (answer.outcome) {
    case ArithmeticOutcome::kDone:
      // memcached is quiet about a number it changed, not about one it made.
      if (flags.quiet && !created) out_.truncate(mark);
      break;
    case ArithmeticOutcome::kNotNumeric:
      reply(kNotNumeric);
      return Ran::kDone;
    case ArithmeticOutcome::kNoMemory:
      reply("SERVER_ERROR out of memory");
      return Ran::kDone;
    case ArithmeticOutcome::kNotFound:
    case ArithmeticOutcome::kCasMismatch:
      out_.append(answer.outcome == ArithmeticOutcome::kNotFound ? "NF" : "EX");
      too_long = !append_echo(line, meta);
      out_.append("\r\n");
      break;
  }
  if (too_long) {
    out_.truncate(mark);
    reply(kOpaqueTooLong);
  }
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
    out_.append_number(item->cas);
    out_.append(item->has(kFetched) ? " fetch=yes cls=" : " fetch=no cls=");
    out_.append_number(static_cast<unsigned>(item->segment()) + 1);
    out_.append(" size=");
    out_.append_number(item->total_bytes());
    out_.append("\r\n");
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  if (out_.size() == mark) reply("EN");
  return Ran::kDone;
}

}  // namespace yonder::cache
