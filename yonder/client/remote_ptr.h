#pragma once
// remote_ptr<T>: a typed pointer to an object of type T in remote memory.
//
//   struct Account { std::int64_t cents; std::uint32_t owner; };
//   auto account = make_remote<Account>(session, {.cents = 100, .owner = 7});
//   Result<Versioned<Account>> now = account->direct_load(session);
//   account->store_if(session, now->version, changed);          // compare and set
//
// It is an ObjectPtr that knows its type: as large, and as freely stored, copied,
// sent and compared. It owns nothing; free(session) ends the object.
//
// Concurrency and lifetime: as the session's calls. One remote_ptr is used by one
// thread at a time, because calls correct it; copies are independent.

#include <cstdint>
#include <span>
#include <type_traits>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/client/session.h"
#include "yonder/fabric/task.h"
#include "yonder/node/object_ptr.h"

namespace yonder::client {

// A value, and the version it was read with.
template <typename T>
struct Versioned {
  T value{};
  ObjectVersion version;
};

template <typename T>
  requires std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> &&
           (sizeof(T) <= node::kMaxObjectBytes)
class remote_ptr {
 public:
  remote_ptr() = default;  // Null.
  // Requires an object of at least sizeof(T) bytes: calls say kOutOfBounds otherwise.
  explicit remote_ptr(ObjectPtr object) : object_(object) {}

  ObjectPtr object() const { return object_; }
  explicit operator bool() const { return static_cast<bool>(object_); }
  // The same object; hints do not count.
  friend bool operator==(const remote_ptr& a, const remote_ptr& b) {
    return same_object(a.object_, b.object_);
  }

  // Through the node, and one-sided.
  Result<Versioned<T>> load(Session& session, Deadline deadline = {}) {
    Versioned<T> out;
    YONDER_TRY(version, session.read(object_, bytes_of(out.value), deadline));
    out.version = version;
    return out;
  }
  Result<Versioned<T>> direct_load(Session& session, Deadline deadline = {}) {
    Versioned<T> out;
    YONDER_TRY(version, session.direct_read(object_, bytes_of(out.value), deadline));
    out.version = version;
    return out;
  }
  // kVersionMismatch if somebody wrote since.
  Result<ObjectVersion> store_if(Session& session, ObjectVersion expected, const T& value,
                                 Deadline deadline = {}) {
    return session.write_if_version(object_, expected, bytes_of(value), deadline);
  }
  Result<ObjectVersion> store(Session& session, const T& value, Deadline deadline = {}) {
    return session.write(object_, bytes_of(value), deadline);
  }
  // Copies of this pointer name nothing afterwards.
  Result<void> release(Session& session, Deadline deadline = {}) {
    return session.release_ptr(object_, deadline);
  }
  Result<void> free(Session& session, Deadline deadline = {}) { return session.free(object_, deadline); }

  // The same as coroutines. The pointer stays where it is until they have ended; values are copied.
  fabric::Task<Result<Versioned<T>>> async_load(Session& session, Deadline deadline = {}) {
    Versioned<T> out;
    co_return versioned(out, co_await session.async_read(object_, bytes_of(out.value), deadline));
  }
  fabric::Task<Result<Versioned<T>>> async_direct_load(Session& session, Deadline deadline = {}) {
    Versioned<T> out;
    co_return versioned(out, co_await session.async_direct_read(object_, bytes_of(out.value), deadline));
  }
  fabric::Task<Result<ObjectVersion>> async_store(Session& session, T value, Deadline deadline = {}) {
    co_return co_await session.async_write(object_, bytes_of(std::as_const(value)), deadline);
  }
  fabric::Task<Result<ObjectVersion>> async_store_if(Session& session, ObjectVersion expected, T value,
                                                     Deadline deadline = {}) {
    co_return co_await session.async_write_if_version(object_, expected, bytes_of(std::as_const(value)),
                                                      deadline);
  }
  fabric::Task<Result<void>> async_release(Session& session, Deadline deadline = {}) {
    return session.async_release_ptr(object_, deadline);
  }
  fabric::Task<Result<void>> async_free(Session& session, Deadline deadline = {}) {
    return session.async_free(object_, deadline);
  }

 private:
  static std::span<std::byte> bytes_of(T& value) { return std::as_writable_bytes(std::span(&value, 1)); }
  static std::span<const std::byte> bytes_of(const T& value) { return std::as_bytes(std::span(&value, 1)); }
  static Result<Versioned<T>> versioned(Versioned<T>& out, const Result<ObjectVersion>& version) {
    if (!version) return std::unexpected(version.error());
    out.version = *version;
    return out;
  }

  ObjectPtr object_;
};

// A new object with a first value. What was allocated is freed if it cannot be written.
template <typename T>
Result<remote_ptr<T>> make_remote(Session& session, const T& value, Deadline deadline = {}) {
  YONDER_TRY(object, session.alloc(sizeof(T), deadline));
  remote_ptr<T> pointer(object);
  const Result<ObjectVersion> written = pointer.store(session, value, deadline);
  if (written) return pointer;
  (void)pointer.free(session, deadline);  // The first error is the one to report.
  return std::unexpected(written.error());
}

}  // namespace yonder::client
