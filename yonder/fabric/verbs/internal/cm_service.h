#pragma once
// The thread that talks to the connection manager.
//
// librdmacm reports everything that happens to connections (requests, replies,
// disconnections) on one event channel. This thread reads it and hands each
// event to the handler of the id it concerns. It sleeps in between: an idle
// fabric costs no CPU.
//
// Ids are destroyed by this thread alone, after the event in hand was given
// back: librdmacm waits in rdma_destroy_id() until all events of the id were
// acknowledged, so destroying elsewhere could wait for a handler that waits for
// a lock of the destroyer.
//
// Concurrency: all functions from any thread; handlers are called on the
// service thread, one at a time. A handler may take locks, but nobody may wait
// for the service thread while holding one of those locks.
// Lifetime: everything buried is destroyed at the latest by the destructor.

#include <rdma/rdma_cma.h>

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/verbs/internal/device.h"
#include "yonder/os/eventfd.h"

namespace yonder::fabric::verbs {

class CmHandler {
 public:
  virtual ~CmHandler() = default;
  // `event` is valid during the call only.
  virtual void on_cm_event(const rdma_cm_event& event) = 0;
};

class CmService {
 public:
  static Result<std::unique_ptr<CmService>> start(std::shared_ptr<Device> device);
  ~CmService();
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  // A new id whose events go to `handler` (kept alive until the id is buried).
  Result<rdma_cm_id*> create_id(std::shared_ptr<CmHandler> handler);
  // Sends the events of an id that a connection request brought to `handler`.
  void adopt(rdma_cm_id* id, std::shared_ptr<CmHandler> handler);
  // No more events of this id; it is destroyed soon.
  void bury(rdma_cm_id* id);

 private:
  CmService(std::shared_ptr<Device> device, rdma_event_channel* channel, os::EventFd bell)
      : device_(std::move(device)), channel_(channel), bell_(std::move(bell)) {}
  void run(const std::stop_token& stop);
  bool handle_one_event();
  std::shared_ptr<CmHandler> handler_of(const rdma_cm_event& event);
  void destroy_buried();

  std::shared_ptr<Device> device_;
  rdma_event_channel* channel_;
  os::EventFd bell_;

  std::mutex mutex_;
  std::unordered_map<rdma_cm_id*, std::shared_ptr<CmHandler>> handlers_;  // guarded by mutex_
  std::vector<rdma_cm_id*> buried_;                                       // guarded by mutex_

  std::jthread thread_;  // Last: uses all of the above.
};

}  // namespace yonder::fabric::verbs
