#pragma once
// Conversation: one client's stream of commands, turned into a stream of replies.
//
// Fed with bytes as they come, in pieces of any size, it takes whole commands off the
// front, carries them out and appends the replies in order. It knows no socket, so the
// tests and the fuzzer talk to it directly.
//
//   state       what the next bytes are                        ends with
//   kCommand    a line                                         the line
//   kValue      a value too long for the reader's buffer       the last byte: the command runs
//   kSwallow    a value nobody wants                           the last byte
//   kKeys       further keys of get, gets, gat, gats           the end of the line: END
//   kDump       not looked at: metadump is being written       the last partition: END
//   kWaiting    not looked at: other servers were asked        resume() of each
//   kClosed     not looked at                                  never
//
// Bounds: a line without end is cut off at kMaxLine (kMaxKeysLine for many keys), and
// while kMaxOutput bytes of replies wait nothing more is done, so that a client that does
// not read costs no more than that and one reply (of other servers' keys: KeyGather::kMaxKeys).
//
// A key of another server's partition: the command is handed to the Forwarder, unless the
// client is a server itself (it said kPeerGreeting first); then the answer is kNotOwner,
// so that no command can go round in circles.
//
// Concurrency: one thread at a time. Lifetime: service, counters and forwarder outlive it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "yonder/cache/executor.h"
#include "yonder/cache/output.h"
#include "yonder/cache/service.h"

namespace yonder::cache {

class Conversation;
class KeyGather;

// What servers say to each other first; the answer is OK.
inline constexpr std::string_view kPeerGreeting = "yonder_peer";
inline constexpr std::string_view kNotOwner = "SERVER_ERROR not owner";

// Reaches the owners of other partitions.
class Forwarder {
 public:
  virtual ~Forwarder() = default;
  struct Request {
    std::size_t partition = 0;
    std::string_view command;  // A whole one, with its value. Borrowed for the time of the call.
    std::size_t part = 0;      // Of several requests that are under way, which one this is.
    bool many_keys = false;    // Whose partitions may have different owners by now.
  };
  // Sends the command to the owner of the partition and calls resume() of the conversation
  // later, never from in here.
  virtual void forward(Conversation& from, const Request& request) = 0;
};

class Conversation {
 public:
  static constexpr std::size_t kMaxLine = 2048;
  static constexpr std::size_t kMaxKeysLine = std::size_t{4} << 20;
  static constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
  // Commands up to this length are waited for in the reader's buffer, which must have
  // room for one of them.
  static constexpr std::size_t kLongestWhole = std::size_t{8} << 10;

  // A null forwarder: other servers' keys get kNotOwner.
  Conversation(Service& service, ThreadCounters& counters, Forwarder* forwarder);
  ~Conversation();

  // Takes what it can off the front of `input`; how many bytes that was. It did not take
  // all: it needs more bytes behind them, or has to wait, or is closed.
  std::size_t consume(std::string_view input, Seconds now);

  // The other side is a server of the cluster: it needs no password, and may say so.
  void trust_server() { is_server_ = authenticated_ = true; }

  Output& output() { return out_; }
  // No more commands will be read; what is in the output is still to be sent.
  bool closed() const { return state_ == State::kClosed; }
  // consume() would take nothing whatever it was given.
  bool blocked() const;
  // How large the reader's buffer must be for the line that is being sent.
  bool wants_long_line() const { return long_line_; }
  // Nothing of a command is under way.
  bool idle() const { return state_ == State::kCommand && out_.empty(); }
  std::string_view state_name() const;

  // The answer of another server to a request: what it would have said to this client, or
  // nothing if it could not be asked. Requires that it was asked.
  void resume(std::size_t part, std::optional<std::string_view> reply);
  // Instead: the key's partition has come here, and the command is carried out after all.
  // Of many keys: those that are not here are asked for one by one.
  void resume_here(std::size_t part, std::string_view command);

 private:
  enum class State : std::uint8_t { kCommand, kValue, kSwallow, kKeys, kDump, kWaiting, kClosed };

  // Each takes bytes off the front; nothing: it cannot go on without more.
  using Step = std::optional<std::size_t>;
  Step step(std::string_view input);
  Step read_command(std::string_view input);
  Step read_unfinished_line(std::string_view input);
  Step read_value(std::string_view input);
  Step swallow(std::string_view input);
  Step read_keys(std::string_view input);
  Step write_dump();
  Step authenticate(std::string_view input, std::string_view line, std::size_t line_bytes);
  void check_password(std::string_view token);

  // A command whose line is complete; `all` begins with it.
  Step dispatch(const CommandLine& line, std::string_view all, std::size_t line_bytes);
  Step dispatch_meta(const CommandLine& line, std::string_view all, std::size_t line_bytes);
  Step store(const CommandLine& line, std::string_view all, std::size_t line_bytes);
  Step meta_set(const CommandLine& line, std::string_view all, std::size_t line_bytes);
  Step begin_keys(const CommandLine& line, std::string_view all, std::size_t line_bytes);
  // Waits for the value of a command, here or in memory of its own; nothing to wait for: the value.
  struct Whole {
    std::string_view value;
    bool ends_well;
  };
  std::optional<Whole> value_of(std::string_view all, std::size_t line_bytes, std::size_t value_bytes,
                                Step& otherwise);
  void skip(std::uint64_t bytes);
  void finish(Ran ran, std::string_view key, std::string_view command);
  void forward(std::string_view key, std::string_view command);
  bool may_forward() const { return !peer_ && forwarder_ != nullptr; }
  // Takes `key`, which is elsewhere, and keys behind it, and asks for those that are not here.
  void gather(std::string_view key, std::string_view& keys);
  void ask_for(std::size_t group);
  // The VALUE block of a key that is here; nothing if it is elsewhere.
  std::optional<std::string> fetch_here(std::string_view key);
  void gather_here(std::size_t group);
  void end_gather();

  Service& service_;
  ThreadCounters& counters_;
  Forwarder* const forwarder_;
  Output out_;
  Executor executor_;
  State state_ = State::kCommand;
  State after_waiting_ = State::kCommand;
  bool authenticated_;
  bool peer_ = false;                  // The client is a server.
  bool awaits_value_ = false;          // Of a command whose line is there.
  bool is_server_ = false;             // It has proved that it may say so.
  bool long_line_ = false;             // The line that is being sent names many keys.
  Fetch fetch_;                        // kKeys
  bool keys_failed_ = false;           // kKeys: an error took the place of END.
  std::unique_ptr<KeyGather> gather_;  // kWaiting, for keys of get, gets, gat, gats.
  std::uint64_t left_ = 0;             // kSwallow, kValue: bytes still to come; kDump: partitions done.
  std::string staged_;                 // kValue: the command so far.
};

}  // namespace yonder::cache
