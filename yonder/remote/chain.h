#pragma once
// A chain: a few requests that leave in one post, take effect in order, and are awaited
// together.
//
//   remote::Chain chain(port);
//   chain.write(piece, token.at(4096));
//   chain.compare_swap(token.at(64), 0, 1);            // after the write, at the target
//   Result<void> done = co_await chain.run(deadline);
//   std::uint64_t before = chain.value(1);
//
// That is how one-sided code publishes: data first, then the word that says that it is
// there, and one round trip for both (E1 of fabric/endpoint.h). A request that fails does
// not stop the later ones (E4), so who chains a publication to its data must be prepared
// to find it published without them: status() tells which one failed.
//
// Concurrency: the port's thread. Lifetime: lives until run() has ended; pieces are
// borrowed until then, arrays of pieces as well.

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/result.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/remote/port.h"

namespace yonder::remote {

class Chain {
 public:
  static constexpr std::size_t kMaxLinks = 8;

  explicit Chain(Port port) : port_(port) {}
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // Each adds one request and requires room for it (checked). An empty piece adds none.
  void read(LocalPiece into, RemoteAddress from);
  void write(LocalPiece from, RemoteAddress to);
  void write(std::span<const LocalPiece> from, RemoteAddress to);
  void compare_swap(RemoteAddress word, std::uint64_t expected, std::uint64_t desired);
  void fetch_add(RemoteAddress word, std::uint64_t add);

  // Sends what was added and ends when all of it has; the first error in order. Once.
  Task<Result<void>> run(Deadline deadline = {});

  std::size_t size() const { return size_; }
  // After run(): of the `index`th request that was added.
  ErrorCode status(std::size_t index) const { return links_[index].completion.status; }
  std::uint64_t value(std::size_t index) const { return links_[index].completion.value; }

 private:
  struct Link : fabric::Operation {
    Link() : Operation(&on_done) {}
    Chain* chain = nullptr;
    LocalPiece piece;
    fabric::WorkRequest request;
    fabric::Completion completion;
  };
  struct AllEnded {
    Chain& chain;
    bool await_ready() const noexcept { return chain.under_way_ == 0; }
    void await_suspend(std::coroutine_handle<> waiter) const noexcept { chain.waiter_ = waiter; }
    void await_resume() const noexcept {}
  };

  static void on_done(fabric::Operation& self, const fabric::Completion& completion);
  Link& add(const fabric::WorkRequest& request);
  // Posts from `first` on and returns the first that did not fit. An error is that of
  // all the others.
  std::size_t post(std::size_t first);

  const Port port_;
  std::size_t size_ = 0;
  std::size_t under_way_ = 0;
  std::coroutine_handle<> waiter_;
  std::array<Link, kMaxLinks> links_;
};

}  // namespace yonder::remote
