#include "yonder/cache/conversation.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/cache/internal/key_gather.h"
#include "yonder/cache/numbers.h"

namespace yonder::cache {
namespace {

bool is_many_keys(std::string_view text) {
  constexpr std::size_t kMaxLeadingSpaces = 100;
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(first);
  return first <= kMaxLeadingSpaces && (text.starts_with("get ") || text.starts_with("gets "));
}

}  // namespace

Conversation::Conversation(Service& service, ThreadCounters& counters, Forwarder* forwarder)
    : service_(service),
      counters_(counters),
      forwarder_(forwarder),
      executor_(service, counters, out_),
      authenticated_(service.auth() == nullptr) {}

Conversation::~Conversation() = default;

bool Conversation::blocked() const {
  return state_ == State::kWaiting || state_ == State::kClosed || out_.size() >= kMaxOutput;
}

std::string_view Conversation::state_name() const {
  switch (state_) {
    case State::kCommand:
      return awaits_value_ ? "conn_nread" : "conn_read";
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
  awaits_value_ = false;
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
  if (command == kPeerGreeting && (is_server_ || !service_.options().servers_have_key)) {
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
      return refuse(kOpaqueTooLong, with_end);
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
  awaits_value_ = true;
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
