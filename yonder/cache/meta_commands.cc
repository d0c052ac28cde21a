// The meta commands mg, ms and md, and the parts of replies that all have.
#include <array>
#include <optional>

#include "yonder/cache/base64.h"
#include "yonder/cache/executor.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

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
    if (line[i][0] == 'w' && meta.flags.where) append_where(meta.key());
  }
  return true;
}

// Under the partition's lock or not: the server's own name needs none.
void Executor::append_where(std::string_view key) {
  out_.append(" w");
  out_.append_number(service_.store().partition_of(Key(key)));
  out_.append("@");
  out_.append(service_.store().self());
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
  const StoreRequest empty_item{.mode = StoreMode::kAdd, .binary_key = meta.flags.binary_key};
  if (partition.store(key, empty_item, now_).outcome != StoreOutcome::kStored) return nullptr;
  return partition.find(key, now_);
}

bool Executor::append_hit(const CommandLine& line, const MetaLine& meta, Item& item, bool created,
                          bool& won) {
  out_.append(meta.flags.value ? "VA " : "HD");
  if (meta.flags.value) out_.append_number(item.value_bytes);
  if (!append_get_flags(line, meta, item, created, won)) return false;
  const bool stale = item.has(kStale);
  if (item.has(kTokenSent)) out_.append(" Z");
  if (stale) out_.append(" X");
  won = won || (stale && !item.has(kTokenSent));
  if (won) {
    out_.append(" W");
    item.set(kTokenSent);
  }
  out_.append("\r\n");
  return true;
}

void Executor::append_miss(const CommandLine& line, const MetaLine& meta) {
  const std::size_t mark = out_.size();
  out_.append("EN");
  const bool fits = append_echo(line, meta);
  out_.append("\r\n");
  if (!fits || meta.flags.quiet) out_.truncate(mark);
  if (!fits) reply(kOpaqueTooLong);
}

Ran Executor::meta_get_once(const CommandLine& line, const MetaLine& meta, const Key& key, bool whole,
                            bool& again) {
  const std::size_t mark = out_.size();
  bool hit = false;
  bool fits = true;
  Segment segment = Segment::kHot;
  LongValue rest;
  const Access access = service_.store().visit(key, [&](Partition& partition) {
    Item* item = partition.find(key, now_);
    const bool created = item == nullptr && meta.flags.has_vivify;
    if (created) item = vivify(partition, key, meta);
    hit = item != nullptr;
    if (!hit) return;
    segment = item->segment();
    bool won = false;
    fits = append_hit(line, meta, *item, created, won);
    if (!fits) return;
    if (!meta.flags.no_bump) partition.bump(*item, now_);
    if (meta.flags.value) append_value(*item, whole || won, rest);
  });
  if (access == Access::kElsewhere) return Ran::kElsewhere;
  again = rest.bytes != 0 && !append_long_value(key, rest);
  if (again || !fits) out_.truncate(mark);
  if (!fits) reply(kOpaqueTooLong);
  if (again || !fits) return Ran::kDone;
  if (hit && meta.flags.has_ttl) {
    counters_.add(Count::kCmdTouch);
    counters_.add(Count::kTouchHits);
  } else {
    count_get(hit, segment);
  }
  if (!hit) append_miss(line, meta);
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
      case 'w':
        append_where(meta.key());
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
        out_.append_number(shown(item.cas));
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
  // With -C memcached appends whatever number it is given.
  const bool extends = mode == StoreMode::kAppend || mode == StoreMode::kPrepend;
  const StoreRequest request{.mode = mode,
                             .flags = flags.client_flags,
                             .expires = flags.has_ttl ? expiry(flags.ttl) : 0,
                             .cas = extends && !service_.options().use_cas ? 0 : wanted(flags.cas),
                             .accept_stale = flags.invalidate && service_.options().use_cas,
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
    out_.append_number(shown(answer.cas));
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
    if (flags.has_cas && shown(item->cas) != flags.cas) {
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

}  // namespace yonder::cache
