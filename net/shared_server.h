// SharedServer: a key-value server that several nodes share, as a program uses it: its connections, their circuit
// breaker, and the Sealer for the values that are stored there.
//
// With a key file, values are sealed and the names of keys are hidden; without one, both are stored in plain, and the
// server must be on this machine. Nothing that the server answers is trusted.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/time_limits.h"
#include "net/connection_pool.h"
#include "net/resp_client.h"
#include "net/sealer.h"

namespace ibid::net {

class SharedServer {
 public:
  // Returns the object of this process for the URL, key file and clock, which is made by the first call, so that the
  // engines of a program and its other stores share connections and breaker. Does not connect: an unreachable server is
  // no error (ConnectionPool::try_now() reports it).
  // url: as in ServerAddress::parse(). key_file: as in Sealer::read(); empty: no key. Errors: kInvalidArgument for an
  // invalid URL or key file, for invalid TLS files, and for an address of another machine without a key; those of
  // Sealer::read(). `clock` must outlive the server. Throws std::system_error if no thread can be started.
  static Result<std::shared_ptr<SharedServer>> open(const std::string& url, const std::string& key_file,
                                                    Clock& clock = system_clock());

  ConnectionPool& connections() { return connections_; }
  const ConnectionPool& connections() const { return connections_; }
  bool has_key() const { return sealer_.has_value(); }

  // Number of keys under which a value may be stored: 2 while one key of the file replaces another, else 1. Values are
  // written under key 0.
  size_t n_keys() const { return sealer_ ? sealer_->n_keys() : 1; }
  // The name of a value on the server: "ibid:" KIND ":" and hexadecimal digits: 32 digits of the hidden name, or those
  // of the id if there is no key.
  std::string key(std::string_view kind, std::span<const std::byte> id, size_t which = 0) const;

  // The bytes to store under `key`: the pieces themselves, or `sealed`, which is replaced by the sealed pieces, as the
  // only piece. The result is valid while pieces and `sealed` are. Error: that of Sealer::seal().
  Result<std::vector<std::span<const std::byte>>> to_store(std::string_view key, ByteStream::Pieces pieces,
                                                           std::vector<std::byte>& sealed) const;
  // Decrypts in place what is stored under `key`, and returns where the value lies. Errors: those of Sealer::open().
  Result<std::span<std::byte>> opened(std::string_view key, std::span<std::byte> stored) const;
  // Bytes of a stored value beyond the value.
  size_t overhead_bytes() const { return sealer_ ? Sealer::kOverheadBytes : 0; }

  // Calls RespClient::call_all() on one connection, and reports the outcome to the breaker. Errors of the server are
  // answers (status_of()). Errors: those of ConnectionPool::take() and RespClient::call_all().
  Result<std::vector<RespValue>> call(const RespRequest& request, const TimeLimits& limits,
                                      std::span<std::byte> room = {});

  // Reports the outcome of a call that `connections()` were used for, which began at begin_ns. status: the error of the
  // connection, or the first error of the answers (status_of()). An answer that concerns all calls counts as a failure:
  // the server is loading, refuses the login or a right, lacks a command, or is a cluster. Others count as success: the
  // server is full, or a key is of another type.
  void report(const Status& status, int64_t begin_ns);

 private:
  SharedServer(Connector connector, std::optional<Sealer> sealer)
      : connections_(std::move(connector)), sealer_(std::move(sealer)) {}
  static Result<std::shared_ptr<SharedServer>> create(const std::string& url, const std::string& key_file,
                                                      Clock& clock);

  ConnectionPool connections_;
  const std::optional<Sealer> sealer_;
};

}  // namespace ibid::net
