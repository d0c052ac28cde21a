#include <fcntl.h>
#include <poll.h>

#include "yonder/base/check.h"
#include "yonder/fabric/verbs/internal/cm_service.h"

namespace yonder::fabric::verbs {

Result<std::unique_ptr<CmService>> CmService::start(std::shared_ptr<Device> device) {
  YONDER_TRY(bell, os::EventFd::create());
  rdma_event_channel* channel = device->library().create_event_channel();
  if (channel == nullptr) return fail_errno("rdma_create_event_channel");
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    const Error error = Error::from_errno("fcntl(F_SETFL)");
    device->library().destroy_event_channel(channel);
    return std::unexpected(error);
  }
  std::unique_ptr<CmService> service(new CmService(std::move(device), channel, std::move(bell)));
  CmService* raw = service.get();
  service->thread_ = std::jthread([raw](const std::stop_token& stop) { raw->run(stop); });
  return service;
}

CmService::~CmService() {
  thread_.request_stop();
  bell_.ring();
  thread_.join();
  destroy_buried();
  YONDER_CHECK(handlers_.empty(), "a fabric outlives its connections and listeners");
  device_->library().destroy_event_channel(channel_);
}

Result<rdma_cm_id*> CmService::create_id(std::shared_ptr<CmHandler> handler) {
  rdma_cm_id* id = nullptr;
  if (device_->library().create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) {
    return fail_errno("rdma_create_id");
  }
  adopt(id, std::move(handler));
  return id;
}

void CmService::adopt(rdma_cm_id* id, std::shared_ptr<CmHandler> handler) {
  const std::scoped_lock lock(mutex_);
  handlers_[id] = std::move(handler);
}

void CmService::bury(rdma_cm_id* id) {
  {
    const std::scoped_lock lock(mutex_);
    handlers_.erase(id);
    buried_.push_back(id);
  }
  bell_.ring();
}

void CmService::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd fds[] = {{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                    {.fd = bell_.fd().get(), .events = POLLIN, .revents = 0}};
    // No time-out: events, burials and the stop all ring.
    ::poll(fds, 2, -1);
    bell_.take();
    while (handle_one_event()) destroy_buried();
    destroy_buried();
  }
}

bool CmService::handle_one_event() {
  const Library& library = device_->library();
  rdma_cm_event* event = nullptr;
  if (library.get_cm_event(channel_, &event) != 0) return false;
  const std::shared_ptr<CmHandler> handler = handler_of(*event);
  const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  rdma_cm_id* requester = event->id;
  if (handler != nullptr) handler->on_cm_event(*event);
  library.ack_cm_event(event);
  // A request for a listener that is gone brought an id nobody owns.
  if (is_request && handler == nullptr) library.destroy_id(requester);
  return true;
}

std::shared_ptr<CmHandler> CmService::handler_of(const rdma_cm_event& event) {
  rdma_cm_id* id = event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? event.listen_id : event.id;
  const std::scoped_lock lock(mutex_);
  const auto found = handlers_.find(id);
  return found == handlers_.end() ? nullptr : found->second;
}

void CmService::destroy_buried() {
  std::vector<rdma_cm_id*> dead;
  {
    const std::scoped_lock lock(mutex_);
    dead.swap(buried_);
  }
  for (rdma_cm_id* id : dead) device_->library().destroy_id(id);
}

}  // namespace yonder::fabric::verbs
