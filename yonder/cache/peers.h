#pragma once
// Peers: asks other servers to carry out commands for keys that they own.
//
// One connection per worker and server, on which commands follow each other without
// waiting. A server that says it is not the owner (kNotOwner) was named by an old map: the
// owner is looked up again and the command repeated until its deadline. A connection that
// breaks: commands that were not sent yet are sent on the next one, and so are reads; a
// change may have happened or not, so its client gets an error and decides.
//
// Bounds: kMaxQuestions wait per server; who comes then is refused at once.
//
// Concurrency: one thread, the worker's. Lifetime: the epoll and the store outlive it.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "yonder/base/time.h"
#include "yonder/cache/answer_scanner.h"
#include "yonder/cache/peer_tls.h"
#include "yonder/cache/store.h"
#include "yonder/os/epoll.h"
#include "yonder/os/socket.h"

namespace yonder::cache {

struct Question {
  std::uint64_t connection = 0;  // Who asked.
  std::size_t partition = 0;
  std::string command;
  Deadline deadline = {};
  std::size_t part = 0;        // Which of its requests this is.
  bool many_keys = false;      // Whose owners may differ: not repeated as it is when refused.
  std::uint32_t refusals = 0;  // How often a server said that it is not the owner.
};

// What became of a question.
struct PeerReply {
  enum class Kind : std::uint8_t {
    kText,    // The owner's reply, for the client.
    kFailed,  // No owner answered in time.
    kLocal,   // The partition has come here meanwhile: to be carried out here.
    kSplit,   // Many keys, and who was asked does not own all of them: to be asked one by one.
  };
  Kind kind = Kind::kFailed;
  std::string_view text = {};
};

struct PeersOptions {
  Duration timeout = std::chrono::seconds(2);  // From question to answer.
  std::size_t max_questions = 4096;            // That wait for one server.
  const PeerTls* tls = nullptr;                // With a cluster key; outlives the peers.
};

class PeerLink;
class Pollable;

class Peers {
 public:
  // Given the answer to each question, once.
  using Answer = std::function<void(const Question& question, const PeerReply& reply)>;

  Peers(Store& store, const os::Epoll& epoll, const PeersOptions& options, Answer answer);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Sets the deadline if there is none. Never answers from in here.
  void ask(Question question);
  // Repeats what is due, gives up what is overdue. To be called after each round of events.
  void tick(Instant now);
  // When tick() has something to do at the latest.
  std::optional<Instant> next_tick() const;
  std::size_t waiting() const;

 private:
  friend class PeerLink;
  struct Later {
    Instant when;
    Question question;
  };

  void send(Question question, Instant now);
  PeerLink* link_to(const std::string& owner, Instant now);
  Result<std::unique_ptr<Channel>> open_channel(const std::string& owner) const;
  void try_again(Question question, Instant when);
  void give_up(const Question& question);

  Store& store_;
  const os::Epoll& epoll_;
  const PeersOptions options_;
  const Answer answer_;
  std::map<std::string, std::unique_ptr<PeerLink>> links_;
  // Servers that could not be reached, and when to try them again.
  std::map<std::string, Instant> unreachable_;
  std::deque<Later> later_;
};

}  // namespace yonder::cache
