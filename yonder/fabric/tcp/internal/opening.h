#pragma once
// Opening: a stream from the TCP connection to the end of the hand-shake, as a
// state machine that never blocks.
//
//   opener    connecting → securing → sending its preface → awaiting the answer → done
//   listener  securing → awaiting the preface → (decide) → sending the answer → done
//
// step() goes as far as it can and says what it waits for. A stranger is turned
// away at the first byte that cannot be ours; a silent one by whoever watches
// the deadline (Service).
//
// Concurrency: one thread at a time. Lifetime: owns the transport until taken.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/tcp/internal/preface.h"
#include "yonder/fabric/tcp/internal/transport.h"

namespace yonder::fabric::tcp {

class OpenerHandshake {
 public:
  // Requires a transport whose socket is connected or connecting.
  OpenerHandshake(std::unique_ptr<Transport> transport, const OpenerPreface& preface);

  // kNothing: done. Errors: kConnectionRefused, kProtocolMismatch,
  // kAuthenticationFailed, kConnectionLost, kMalformedFrame, and what the
  // listener refused with (kStaleEpoch, kResourceExhausted …).
  Result<Transport::Want> step();

  // After step() said kNothing.
  const Agreement& agreement() const { return agreement_; }
  const ListenerPreface& answer() const { return answer_; }
  std::span<const std::byte> greeting() const;
  std::unique_ptr<Transport> take_transport() { return std::move(transport_); }
  const Transport& transport() const { return *transport_; }

 private:
  enum class State : std::uint8_t { kConnecting, kSecuring, kSending, kAwaiting, kDone };

  Result<Transport::Want> finish_connect();
  Result<Transport::Want> send_preface();
  Result<Transport::Want> read_answer();
  Result<void> judge_answer();
  std::size_t answer_bytes_expected() const;

  std::unique_ptr<Transport> transport_;
  const OpenerPreface preface_;
  const OpenerPreface::Encoded encoded_;
  State state_ = State::kConnecting;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::array<std::byte, ListenerPreface::kBytes + kMaxGreetingBytes> input_;
  ListenerPreface answer_;
  Agreement agreement_;
};

class ListenerHandshake {
 public:
  explicit ListenerHandshake(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  // kNothing: the peer's preface is there (decide with answer(), then step on),
  // or, after answer(), all is sent. Errors as above.
  Result<Transport::Want> step();

  bool has_preface() const { return state_ == State::kDeciding; }
  bool is_done() const { return state_ == State::kDone; }
  const OpenerPreface& preface() const { return preface_; }
  // Requires has_preface() (checked).
  void answer(const ListenerPreface& answer, std::span<const std::byte> greeting);
  std::unique_ptr<Transport> take_transport() { return std::move(transport_); }
  bool has_transport() const { return transport_ != nullptr; }
  const Transport& transport() const { return *transport_; }

 private:
  enum class State : std::uint8_t { kSecuring, kAwaiting, kDeciding, kSending, kDone };

  Result<Transport::Want> read_preface();
  Result<Transport::Want> send_answer();

  std::unique_ptr<Transport> transport_;
  State state_ = State::kSecuring;
  std::size_t received_ = 0;
  std::size_t sent_ = 0;
  OpenerPreface::Encoded input_;
  OpenerPreface preface_;
  std::vector<std::byte> output_;
};

}  // namespace yonder::fabric::tcp
