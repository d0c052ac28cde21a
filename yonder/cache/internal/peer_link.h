#pragma once
// PeerLink: the connection to one other server, with the commands that are under way on it.
//
// Concurrency: the worker's thread. Lifetime: owned by Peers.

#include <deque>
#include <memory>
#include <string>

#include "yonder/cache/internal/channel.h"
#include "yonder/cache/internal/pollable.h"
#include "yonder/cache/output.h"
#include "yonder/cache/peers.h"

namespace yonder::cache {

class PeerLink final : public Pollable {
 public:
  // A socket that may still be connecting; it has until `greeted_by` to be a server's.
  PeerLink(Peers& peers, std::unique_ptr<Channel> channel, Instant greeted_by);
  ~PeerLink() override;

  // Errors: those of Epoll::add.
  Result<void> start();
  bool broken() const { return broken_; }
  std::size_t waiting() const { return questions_.size(); }
  // The other side has answered once.
  bool greeted() const { return greeted_; }
  // When something should have been answered.
  std::optional<Instant> first_deadline() const;

  void send(Question question);
  void on_events(std::uint32_t bits) override;
  // The link is given up: questions are repeated elsewhere where that is harmless.
  void break_off(Instant now);

 private:
  struct Asked {
    Question question;
    std::uint64_t end;  // Of its bytes in all that was ever put into out_.
  };

  void read();
  void take_answers();
  void flush();
  void watch();

  Peers& peers_;
  const std::unique_ptr<Channel> channel_;
  const Instant greeted_by_;
  Output out_;
  std::string in_;
  AnswerScanner scanner_;
  std::deque<Asked> questions_;
  std::uint64_t queued_ = 0;  // Bytes ever put into out_…
  std::uint64_t sent_ = 0;    // …and sent.
  std::uint32_t watched_ = 0;
  bool greeted_ = false;
  bool broken_ = false;
};

}  // namespace yonder::cache
