#pragma once
// Connection: one client: its channel, its conversation, and the bytes between them.
//
// One read, all commands in it, one write: a client that sends many commands at once gets
// all replies with one system call. Bytes are read into the worker's buffer and only what
// is left over is kept here, so an idle connection holds no buffers.
//
// A client that does not take its replies is not read any more once Conversation::kMaxOutput
// bytes wait, and is looked at again when the socket takes bytes.
//
// Concurrency: the worker's thread. Lifetime: owned by the worker.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "yonder/cache/conversation.h"
#include "yonder/cache/internal/channel.h"
#include "yonder/cache/internal/pollable.h"
#include "yonder/cache/peers.h"

namespace yonder::cache {

class Worker;

class Connection final : public Pollable, public Forwarder {
 public:
  Connection(Worker& worker, std::uint64_t id, std::unique_ptr<Channel> channel);

  std::uint64_t id() const { return id_; }
  // For reports, from any thread.
  struct Ends {
    int fd;
    std::string peer;
    std::string local;
  };
  const Ends& ends() const { return ends_; }
  const Channel& channel() const { return *channel_; }
  bool idle() const { return conversation_.idle() && held_.empty(); }
  bool dead() const { return dead_; }
  // For reports, from any thread: as of the end of the last event.
  Seconds last_command() const { return last_command_.load(std::memory_order_relaxed); }
  std::string_view state_name() const { return state_name_.load(std::memory_order_relaxed); }

  void on_events(std::uint32_t bits) override;
  void forward(Conversation& from, const Request& request) override;
  // What became of the command that was forwarded.
  void answer(const Question& question, const PeerReply& reply);
  // Ends now.
  void kill();

 private:
  void read();
  bool may_read() const;
  // Lets the conversation go on, with bytes that have come or without, and sends what it says.
  void pump(std::string_view fresh);
  void converse(std::string_view fresh);
  void flush();
  void watch();

  Worker& worker_;
  const std::uint64_t id_;
  std::unique_ptr<Channel> channel_;
  const Ends ends_;
  Conversation conversation_;
  std::string held_;  // Read, but not used yet.
  std::uint32_t watched_;
  std::atomic<Seconds> last_command_;
  std::atomic<const char*> state_name_{"conn_new_cmd"};
  bool stalled_ = false;  // The conversation had to stop before the end of what it was given.
  bool closing_ = false;
  bool dead_ = false;
};

}  // namespace yonder::cache
