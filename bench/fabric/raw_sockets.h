#pragma once
// Bare sockets as a baseline: a client and a server thread that do by hand what
// a one-sided read needs, and nothing else.
//
// Concurrency: one thread uses a RawPair; it owns the server's thread.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/os/socket.h"

namespace yonder::bench {

// Best effort: a core that does not exist changes nothing.
void keep_this_thread_on(unsigned cpu);

class RawPair {
 public:
  static constexpr std::size_t kRequestBytes = 72;
  static constexpr std::size_t kReplyHeaderBytes = 24;

  // The server answers every request with `read_bytes` of its memory.
  static Result<RawPair> connect(std::uint32_t read_bytes);

  // Serves, busily, for as long as it lives.
  class Serving {
   public:
    Serving(RawPair& pair, unsigned cpu);
    ~Serving();

   private:
    RawPair& pair_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
  };

  // One round trip. / Keeps `depth` requests under way until `count` are answered.
  void ask();
  // `answered` is told how many, each time some are.
  template <typename Answered>
  void pipeline(std::size_t count, std::size_t depth, Answered&& answered);

 private:
  RawPair(os::Socket client, os::Socket server, std::uint32_t read_bytes);
  std::size_t reply_bytes() const { return kReplyHeaderBytes + read_bytes_; }
  void serve_once();
  void send(std::size_t requests);
  void take_replies(std::size_t count);
  // What is there, 0 if nothing.
  static std::size_t receive(const os::Socket& socket, std::span<std::byte> into);
  static void send_all(const os::Socket& socket, std::span<const std::byte> bytes);

  os::Socket client_;
  os::Socket server_;
  std::uint32_t read_bytes_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> requests_;
  std::vector<std::byte> client_input_;
  std::vector<std::byte> destination_;
  std::vector<std::byte> server_input_;
  std::vector<std::byte> replies_;
  std::size_t server_have_ = 0;
};

template <typename Answered>
void RawPair::pipeline(std::size_t count, std::size_t depth, Answered&& answered) {
  std::size_t asked = std::min(depth, count);
  std::size_t done = 0;
  std::size_t have = 0;
  send(asked);
  while (done < count) {
    have += receive(client_, std::span(client_input_).subspan(have));
    const std::size_t whole = have / reply_bytes();
    if (whole == 0) continue;
    take_replies(whole);
    have -= whole * reply_bytes();
    done += whole;
    const std::size_t more = std::min(whole, count - asked);
    asked += more;
    send(more);
    answered(whole);
  }
}

}  // namespace yonder::bench
