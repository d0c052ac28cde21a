#pragma once
// The hall: where a listener receives connections and seats them.
//
// It outlives its Listener while seats are taken, because an initiator whose
// queue pair broke resumes through the same door: new connections are then
// refused, old ones can come back.
//
// Concurrency: any thread; connection requests are handled on the service thread.
// Lifetime: shared by the listener, its seats and the service thread; the
// listening id ends when the listener is closed and the last seat is empty.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/fabric/verbs/internal/core.h"
#include "yonder/fabric/verbs/internal/seat.h"
#include "yonder/os/address.h"

namespace yonder::fabric::verbs {

class Hall final : public CmHandler, public std::enable_shared_from_this<Hall> {
 public:
  static Result<std::shared_ptr<Hall>> open(Core& core, const ListenOptions& options,
                                            const os::SocketAddress& address);
  Hall(Core& core, const ListenOptions& options) : core_(core), options_(options) {}
  ~Hall() override;

  std::string address() const { return address_; }
  Result<std::shared_ptr<Seat>> next_seat(Deadline deadline);
  std::size_t connection_count() const;
  void close();

  // A seat was closed.
  void leave(SeatId id);

  void on_cm_event(const rdma_cm_event& event) override;

 private:
  Result<void> bind(const os::SocketAddress& address);
  Result<void> make_passive_queue();
  // Service thread. The error's code goes to the initiator.
  Result<void> admit(const rdma_cm_event& event);
  Result<void> open_connection(const rdma_cm_event& event, const OpenRequest& request);
  Result<void> resume_connection(const rdma_cm_event& event, const ResumeRequest& request);
  Result<std::shared_ptr<Seat>> make_seat(const Agreement& agreement);
  Result<void> enter(const std::shared_ptr<Seat>& seat);
  bool announce(const std::shared_ptr<Seat>& seat);
  Result<void> attach_to_queue(Seat::Parts& parts);
  Result<void> check_epoch(Epoch epoch) const;
  std::shared_ptr<Seat> find(SeatId id) const;
  void end_if_empty(std::unique_lock<std::mutex>& lock);

  Core& core_;
  const ListenOptions options_;
  std::string address_;
  std::shared_ptr<Bell> passive_bell_;
  ibv_cq* passive_cq_ = nullptr;  // No completion ever comes here.
  std::size_t next_queue_ = 0;    // Service thread.

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  rdma_cm_id* id_ = nullptr;                                 // guarded by mutex_
  std::unordered_map<SeatId, std::shared_ptr<Seat>> seats_;  // guarded by mutex_
  std::deque<std::shared_ptr<Seat>> waiting_;                // guarded by mutex_
  bool closed_ = false;                                      // guarded by mutex_
};

class VerbsListener final : public Listener {
 public:
  VerbsListener(Core& core, std::shared_ptr<Hall> hall) : core_(core), hall_(std::move(hall)) {}
  ~VerbsListener() override { hall_->close(); }

  std::string address() const override { return hall_->address(); }
  Result<std::unique_ptr<Endpoint>> accept(Deadline deadline) override;
  std::size_t connection_count() const override { return hall_->connection_count(); }
  void close() override { hall_->close(); }

 private:
  Core& core_;
  const std::shared_ptr<Hall> hall_;
};

}  // namespace yonder::fabric::verbs
