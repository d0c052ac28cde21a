// A conversation's longer turns: lines with many keys, the dump of all items, and commands
// that another server answers.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/cache/conversation.h"
#include "yonder/cache/internal/key_gather.h"
#include "yonder/cache/numbers.h"
#include "yonder/cache/stats_report.h"

namespace yonder::cache {

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
    if (!may_forward()) {
      out_.append_line(kNotOwner);
      state_ = State::kCommand;
      return end + 1;
    }
    gather(key, keys);
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
  if (!may_forward()) {
    out_.append_line(kNotOwner);
    state_ = State::kCommand;
    return;
  }
  after_waiting_ = state_;
  state_ = State::kWaiting;
  counters_.add(Count::kForwarded);
  forwarder_->forward(*this, {.partition = service_.store().partition_of(Key(name)), .command = command});
}

void Conversation::resume(std::size_t part, std::optional<std::string_view> reply) {
  YONDER_CHECK(state_ == State::kWaiting, "an answer comes to who asked");
  if (!reply) counters_.add(Count::kForwardFailed);
  if (gather_ != nullptr) {
    gather_->answer(part, reply);
    return end_gather();
  }
  state_ = after_waiting_;
  out_.append(reply.value_or("SERVER_ERROR the owner of the key does not answer\r\n"));
}

void Conversation::resume_here(std::size_t part, std::string_view command) {
  YONDER_CHECK(state_ == State::kWaiting, "an answer comes to who asked");
  if (gather_ != nullptr) return gather_here(part);
  state_ = State::kCommand;
  for (std::size_t used = 0;
       used < command.size() && state_ != State::kWaiting && state_ != State::kClosed;) {
    used += step(command.substr(used)).value_or(command.size());
  }
}

// ---------------------------------------------------------------- keys of several servers

void Conversation::gather(std::string_view key, std::string_view& keys) {
  gather_ = std::make_unique<KeyGather>();
  const auto add_elsewhere = [&](std::string_view name) {
    const std::size_t partition = service_.store().partition_of(Key(name));
    gather_->add_elsewhere(name, partition, service_.store().owner_of(partition));
  };
  add_elsewhere(key);
  while (!gather_->full()) {
    const std::string_view next = next_token(keys);
    if (next.empty()) break;
    if (const std::optional<std::string> block = fetch_here(next)) {
      gather_->add_here(*block);
    } else {
      add_elsewhere(next);
    }
  }
  after_waiting_ = State::kKeys;
  state_ = State::kWaiting;
  for (std::size_t group = 0; group < gather_->groups(); ++group) ask_for(group);
}

void Conversation::ask_for(std::size_t group) {
  std::string command(fetch_.touch ? (fetch_.with_cas ? "gats" : "gat") : (fetch_.with_cas ? "gets" : "get"));
  if (fetch_.touch) command.append(" ").append(std::to_string(fetch_.exptime));
  command.append(gather_->keys_of(group)).append("\r\n");
  counters_.add(Count::kForwarded);
  forwarder_->forward(*this, {.partition = gather_->group(group).partition,
                              .command = command,
                              .part = group,
                              .many_keys = gather_->group(group).members.size() > 1});
}

std::optional<std::string> Conversation::fetch_here(std::string_view key) {
  const std::size_t mark = out_.size();
  if (executor_.fetch(key, fetch_) == Ran::kElsewhere) return std::nullopt;
  std::string block(out_.text().substr(mark));
  out_.truncate(mark);
  return block;
}

void Conversation::gather_here(std::size_t group) {
  const std::vector<std::size_t> members = gather_->group(group).members;
  gather_->end(group);
  for (const std::size_t place : members) {
    const std::string key(gather_->key(place));
    if (const std::optional<std::string> block = fetch_here(key)) {
      gather_->set_block(place, *block);
    } else {
      ask_for(gather_->regroup(place, service_.store().partition_of(Key(key))));
    }
  }
  end_gather();
}

void Conversation::end_gather() {
  if (!gather_->complete()) return;
  state_ = State::kKeys;
  keys_failed_ = !gather_->write(out_);
  gather_.reset();
}

}  // namespace yonder::cache
