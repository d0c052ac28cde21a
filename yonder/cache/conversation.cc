#include "yonder/cache/conversation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/cache/numbers.h"
#include "yonder/cache/stats_report.h"

namespace yonder::cache {
namespace {

bool is_many_keys(std::string_view text) {
  constexpr std::size_t kMaxLeadingSpaces = 100;
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(first);
  return first <= kMaxLeadingSpaces && (text.starts_with("get ") || text.starts_with("gets "));
}

// Without "\n" or "\r\n".
std::string_view trim_line(std::string_view line) {
  line.remove_suffix(1);
  if (line.size() > 1 && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

Conversation::Conversation(Service& service, ThreadCounters& counters, Forwarder* forwarder)
    : service_(service),
      counters_(counters),
      forwarder_(forwarder),
      executor_(service, counters, out_),
      authenticated_(service.auth() == nullptr) {}

bool Conversation::blocked() const {
  return state_ == State::kWaiting || state_ == State::kClosed || out_.size() >= kMaxOutput;
}

std::string_view Conversation::state_name() const {
  switch (state_) {
    case State::kCommand:
    case State::kKeys:
      return "conn_parse_cmd";
    case State::kValue:
      return "conn_nread";
    case State::kSwallow:
      return "conn_swallow";
    case State::kDump:
      return "conn_watch";
    case State::kWaiting:
      return "conn_io_queue";
    case State::kClosed:
      return "conn_closing";
  }
  return "conn_closing";
}

std::size_t Conversation::consume(std::string_view input, Seconds now) {
  executor_.set_now(now);
  std::size_t used = 0;
  while (!blocked()) {
    const Step taken = step(input.substr(used));
    if (!taken) break;
    used += *taken;
  }
  return used;
}

Conversation::Step Conversation::step(std::string_view input) {
  switch (state_) {
    case State::kCommand:
      return read_command(input);
    case State::kValue:
      return read_value(input);
    case State::kSwallow:
      return swallow(input);
    case State::kKeys:
      return read_keys(input);
    case State::kDump:
      return write_dump();
    case State::kWaiting:
    case State::kClosed:
      break;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- lines

Conversation::Step Conversation::read_command(std::string_view input) {
  const std::size_t end = input.find('\n');
  if (end == std::string_view::npos) return read_unfinished_line(input);
  long_line_ = false;
  const std::string_view line = trim_line(input.substr(0, end + 1));
  if (!authenticated_) return authenticate(input, line, end + 1);
  return dispatch(CommandLine(line), input, end + 1);
}

Conversation::Step Conversation::read_unfinished_line(std::string_view input) {
  if (input.size() <= kMaxLine) return std::nullopt;
  long_line_ = authenticated_ && is_many_keys(input) && input.size() < kMaxKeysLine;
  if (!long_line_) state_ = State::kClosed;
  return std::nullopt;
}

Conversation::Step Conversation::dispatch(const CommandLine& line, std::string_view all,
                                          std::size_t line_bytes) {
  const std::string_view command = line[0];
  if (command.size() < 2) {
    out_.append_line("ERROR");
    return line_bytes;
  }
  if (command.size() == 2 && command[0] == 'm') return dispatch_meta(line, all, line_bytes);
  if (command[0] == 'g' || command == "bget") return begin_keys(line, all, line_bytes);
  if (storage_mode(command)) return store(line, all, line_bytes);
  if (command == "delete" || command == "incr" || command == "decr" || command == "touch") {
    finish(executor_.keyed(line), line[1], all.substr(0, line_bytes));
    return line_bytes;
  }
  if (command == kPeerGreeting) {
    peer_ = true;
    out_.append_line("OK");
    return line_bytes;
  }
  if (command == "lru_crawler" && line.size() == 3 && line[1] == "metadump") {
    if (service_.options().allow_dump) {
      state_ = State::kDump;
      left_ = 0;
    } else {
      out_.append_line("ERROR metadump not allowed");
    }
    return line_bytes;
  }
  finish(executor_.administer(line), {}, {});
  return line_bytes;
}

Conversation::Step Conversation::dispatch_meta(const CommandLine& line, std::string_view all,
                                               std::size_t line_bytes) {
  const char which = line[0][1];
  if (which == 's') return meta_set(line, all, line_bytes);
  if (which == 'e') {
    finish(executor_.meta_debug(line), line[1], all.substr(0, line_bytes));
    return line_bytes;
  }
  if (which != 'g' && which != 'd' && which != 'a') {
    finish(executor_.administer(line), {}, {});
    return line_bytes;
  }
  const MetaKind kind = which == 'g'   ? MetaKind::kGet
                        : which == 'd' ? MetaKind::kDelete
                                       : MetaKind::kArithmetic;
  MetaLine meta;
  if (const auto parsed = parse_meta(kind, line, meta); !parsed) {
    out_.append_line(parsed.error().reply);
    return line_bytes;
  }
  const Ran ran = kind == MetaKind::kGet      ? executor_.meta_get(line, meta)
                  : kind == MetaKind::kDelete ? executor_.meta_delete(line, meta)
                                              : executor_.meta_arithmetic(line, meta);
  finish(ran, meta.key(), all.substr(0, line_bytes));
  return line_bytes;
}

void Conversation::finish(Ran ran, std::string_view key, std::string_view command) {
  if (ran == Ran::kElsewhere) forward(key, command);
  if (ran == Ran::kClose) state_ = State::kClosed;
}

// ---------------------------------------------------------------- values

Conversation::Step Conversation::store(const CommandLine& line, std::string_view all,
                                       std::size_t line_bytes) {
  const auto parsed = parse_storage(line);
  if (!parsed) {
    if (!parsed.error().silent) out_.append_line(parsed.error().reply);
    return line_bytes;
  }
  if (executor_.refuse_large(*parsed)) {
    skip(std::uint64_t{parsed->value_bytes} + 2);
    return line_bytes;
  }
  Step otherwise;
  const std::optional<Whole> whole = value_of(all, line_bytes, parsed->value_bytes, otherwise);
  if (!whole) return otherwise;
  const std::size_t bytes = line_bytes + parsed->value_bytes + 2;
  if (whole->ends_well) {
    finish(executor_.store(*parsed, whole->value), parsed->key, all.substr(0, bytes));
  } else if (!parsed->noreply) {
    out_.append_line(kBadChunk);
  }
  return bytes;
}

Conversation::Step Conversation::meta_set(const CommandLine& line, std::string_view all,
                                          std::size_t line_bytes) {
  MetaLine meta;
  const auto refuse = [&](std::string_view reply, std::uint64_t bytes) {
    out_.append_line(reply);
    skip(bytes);
    return line_bytes;
  };
  if (const auto parsed = parse_meta(MetaKind::kSet, line, meta); !parsed) {
    return refuse(parsed.error().reply, parsed.error().swallow);
  }
  const std::uint64_t with_end = std::uint64_t{meta.value_bytes} + 2;
  const auto mode = meta_store_mode(meta.flags);
  if (!mode) return refuse(mode.error().reply, with_end);
  for (std::size_t i = meta.first_flag; i < line.size(); ++i) {
    if (line[i][0] == 'O' && line[i].size() > kMaxOpaqueBytes) {
      return refuse("CLIENT_ERROR opaque token too long", with_end);
    }
  }
  if (executor_.refuse_large(meta)) {
    skip(with_end);
    return line_bytes;
  }
  Step otherwise;
  const std::optional<Whole> whole = value_of(all, line_bytes, meta.value_bytes, otherwise);
  if (!whole) return otherwise;
  const std::size_t bytes = line_bytes + meta.value_bytes + 2;
  if (whole->ends_well) {
    finish(executor_.meta_set(line, meta, *mode, whole->value), meta.key(), all.substr(0, bytes));
  } else {
    out_.append_line(kBadChunk);
  }
  return bytes;
}

std::optional<Conversation::Whole> Conversation::value_of(std::string_view all, std::size_t line_bytes,
                                                          std::size_t value_bytes, Step& otherwise) {
  const std::size_t bytes = line_bytes + value_bytes + 2;
  if (all.size() >= bytes) {
    return Whole{.value = all.substr(line_bytes, value_bytes),
                 .ends_well = all.substr(line_bytes + value_bytes, 2) == "\r\n"};
  }
  if (bytes > kLongestWhole) {
    staged_.reserve(bytes);
    staged_.assign(all);
    left_ = bytes - all.size();
    state_ = State::kValue;
    otherwise = all.size();
  }
  return std::nullopt;
}

Conversation::Step Conversation::read_value(std::string_view input) {
  if (input.empty()) return std::nullopt;
  const std::size_t taken = std::min<std::uint64_t>(left_, input.size());
  staged_.append(input.substr(0, taken));
  left_ -= taken;
  if (left_ > 0) return taken;
  state_ = State::kCommand;
  // Now the command is whole, and in one piece: it runs as if it had come so.
  const std::string whole = std::move(staged_);
  staged_ = {};
  const Step used = read_command(whole);
  YONDER_CHECK(used == whole.size(), "a command that is whole is carried out");
  return taken;
}

void Conversation::skip(std::uint64_t bytes) {
  if (bytes == 0) return;
  left_ = bytes;
  state_ = State::kSwallow;
}

Conversation::Step Conversation::swallow(std::string_view input) {
  if (input.empty()) return std::nullopt;
  const std::size_t taken = std::min<std::uint64_t>(left_, input.size());
  left_ -= taken;
  if (left_ == 0) state_ = State::kCommand;
  return taken;
}

// ---------------------------------------------------------------- many keys

Conversation::Step Conversation::begin_keys(const CommandLine& line, std::string_view all,
                                            std::size_t line_bytes) {
  const std::string_view command = line[0];
  const bool touch = command == "gat" || command == "gats";
  const bool known = touch || command == "get" || command == "gets" || command == "bget";
  if (line.size() < 2 || !known) {
    out_.append_line("ERROR");
    return line_bytes;
  }
  fetch_ = Fetch{.with_cas = command == "gets" || command == "gats", .touch = touch};
  if (touch) {
    const std::optional<std::int32_t> exptime = parse_i32(line[1]);
    if (!exptime) {
      out_.append_line("CLIENT_ERROR invalid exptime argument");
      return line_bytes;
    }
    fetch_.exptime = *exptime;
  }
  std::string_view keys = trim_line(all.substr(0, line_bytes));
  keys = keys.substr(0, keys.find('\0'));
  next_token(keys);
  if (touch) next_token(keys);
  const std::size_t before_keys = static_cast<std::size_t>(keys.data() - all.data());
  for (std::string_view rest = keys, key = next_token(rest); !key.empty(); key = next_token(rest)) {
    if (key.size() <= kMaxKeyBytes) continue;
    // The values before it are not sent, but have been read, and touched.
    const std::size_t mark = out_.size();
    for (std::string_view good = next_token(keys); good.size() <= kMaxKeyBytes; good = next_token(keys)) {
      executor_.fetch(good, fetch_);
      out_.truncate(mark);
    }
    out_.append_line(kBadFormat);
    return line_bytes;
  }
  state_ = State::kKeys;
  return before_keys;
}

Conversation::Step Conversation::read_keys(std::string_view input) {
  const std::size_t end = input.find('\n');
  YONDER_CHECK(end != std::string_view::npos, "keys are read from a line that is complete");
  if (std::exchange(keys_failed_, false)) {
    state_ = State::kCommand;
    return end + 1;
  }
  std::string_view keys = input.substr(0, end);
  if (!keys.empty() && keys.back() == '\r') keys.remove_suffix(1);
  keys = keys.substr(0, keys.find('\0'));
  while (!blocked()) {
    const std::string_view key = next_token(keys);
    if (key.empty()) {
      out_.append("END\r\n");
      state_ = State::kCommand;
      return end + 1;
    }
    if (executor_.fetch(key, fetch_) != Ran::kElsewhere) continue;
    std::string command(fetch_.touch ? (fetch_.with_cas ? "gats " : "gat ")
                                     : (fetch_.with_cas ? "gets " : "get "));
    if (fetch_.touch) command += std::to_string(fetch_.exptime) + ' ';
    command.append(key).append("\r\n");
    forward(key, command);
    if (state_ == State::kCommand) return end + 1;
  }
  return static_cast<std::size_t>(keys.data() - input.data());
}

Conversation::Step Conversation::write_dump() {
  if (left_ < service_.store().partitions()) {
    dump_partition(service_, out_, static_cast<std::size_t>(left_++));
    return 0;
  }
  out_.append("END\r\n");
  state_ = State::kCommand;
  return 0;
}

// ---------------------------------------------------------------- other servers

void Conversation::forward(std::string_view name, std::string_view command) {
  if (peer_ || forwarder_ == nullptr) {
    out_.append_line(kNotOwner);
    state_ = State::kCommand;
    return;
  }
  after_waiting_ = state_;
  state_ = State::kWaiting;
  counters_.add(Count::kForwarded);
  forwarder_->forward(*this, service_.store().partition_of(Key(name)), command);
}

void Conversation::resume(std::optional<std::string_view> reply) {
  YONDER_CHECK(state_ == State::kWaiting, "an answer comes to who asked");
  state_ = after_waiting_;
  if (!reply) {
    counters_.add(Count::kForwardFailed);
    reply = "SERVER_ERROR the owner of the key does not answer\r\n";
  }
  constexpr std::string_view kEnd = "END\r\n";
  if (state_ == State::kKeys) {
    keys_failed_ = !reply->ends_with(kEnd);
    if (!keys_failed_) reply->remove_suffix(kEnd.size());
  }
  out_.append(*reply);
}

void Conversation::resume_here(std::string_view command) {
  YONDER_CHECK(state_ == State::kWaiting, "an answer comes to who asked");
  const State outer = after_waiting_;
  const Fetch fetch = fetch_;
  state_ = State::kCommand;
  for (std::size_t used = 0;
       used < command.size() && state_ != State::kWaiting && state_ != State::kClosed;) {
    used += step(command.substr(used)).value_or(command.size());
  }
  if (state_ != State::kCommand || outer != State::kKeys) return;
  // It was one key of several: their END comes after the last.
  constexpr std::size_t kEnd = 5;
  out_.truncate(out_.size() - kEnd);
  fetch_ = fetch;
  state_ = State::kKeys;
}

// ---------------------------------------------------------------- who is there

Conversation::Step Conversation::authenticate(std::string_view input, std::string_view text,
                                              std::size_t line_bytes) {
  const CommandLine line(text);
  const std::optional<std::uint32_t> bytes = parse_u32(line[4]);
  if (line.size() < 5 || line[0] != "set" || !bytes) {
    out_.append_line("CLIENT_ERROR unauthenticated");
    return line_bytes;
  }
  constexpr std::uint32_t kLongestToken = 1024;
  if (*bytes > kLongestToken) {
    state_ = State::kClosed;
    return std::nullopt;
  }
  const std::size_t whole = line_bytes + *bytes + 2;
  if (input.size() < whole) return std::nullopt;
  if (input.substr(line_bytes + *bytes, 2) != "\r\n") {
    out_.append_line("CLIENT_ERROR bad command line termination");
  } else {
    check_password(input.substr(line_bytes, *bytes));
  }
  return whole;
}

void Conversation::check_password(std::string_view token) {
  const CommandLine words(token);
  if (words.size() < 2) {
    out_.append_line("CLIENT_ERROR bad authentication token format");
    return;
  }
  counters_.add(Count::kAuthCmds);
  authenticated_ = service_.auth()->check(words[0], words[1]);
  if (!authenticated_) counters_.add(Count::kAuthErrors);
  out_.append_line(authenticated_ ? "STORED" : "CLIENT_ERROR authentication failure");
}

}  // namespace yonder::cache
