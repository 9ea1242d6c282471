#include "net/shared_server.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/sha256.h"

namespace ibid::net {

Result<std::shared_ptr<SharedServer>> SharedServer::open(const std::string& url, const std::string& key_file,
                                                         Clock& clock) {
  // The process is a part of the key, because a child of fork() lacks the thread of its parent's object.
  using Key = std::tuple<std::string, std::string, const Clock*, pid_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<SharedServer>> opened;
  const std::lock_guard lock(mutex);
  std::erase_if(opened, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<SharedServer>& known = opened[{url, key_file, &clock, ::getpid()}];
  if (std::shared_ptr<SharedServer> server = known.lock()) return server;
  TRY_ASSIGN(std::shared_ptr<SharedServer> server, create(url, key_file, clock));
  known = server;
  return server;
}

Result<std::shared_ptr<SharedServer>> SharedServer::create(const std::string& url, const std::string& key_file,
                                                           Clock& clock) {
  TRY_ASSIGN(ServerAddress address, ServerAddress::parse(url));
  std::optional<Sealer> sealer;
  if (!key_file.empty()) {
    TRY_ASSIGN(sealer, Sealer::read(key_file));
  }
  TRY_ASSIGN(Connector connector, Connector::create(std::move(address), !sealer, clock));
  return std::shared_ptr<SharedServer>(new SharedServer(std::move(connector), std::move(sealer)));
}

std::string SharedServer::key(std::string_view kind, std::span<const std::byte> id, size_t which) const {
  std::string key = "ibid:" + std::string(kind) + ":";
  if (!sealer_) return key + to_hex(id);
  const std::span<const std::byte> text = std::as_bytes(std::span(key));
  std::vector<std::byte> name(text.begin(), text.end());
  name.insert(name.end(), id.begin(), id.end());
  return key + to_hex(sealer_->hidden_name(which, name));
}

Result<std::vector<std::span<const std::byte>>> SharedServer::to_store(std::string_view key, ByteStream::Pieces pieces,
                                                                       std::vector<std::byte>& sealed) const {
  if (!sealer_) return std::vector(pieces.begin(), pieces.end());
  TRY(sealer_->seal(key, pieces, sealed));
  return std::vector<std::span<const std::byte>>{sealed};
}

Result<std::span<std::byte>> SharedServer::opened(std::string_view key, std::span<std::byte> stored) const {
  if (!sealer_) return stored;
  return sealer_->open(key, stored);
}

Result<std::vector<RespValue>> SharedServer::call(const RespRequest& request, const TimeLimits& limits,
                                                  std::span<std::byte> room) {
  TRY_ASSIGN(ConnectionPool::Lease lease, connections_.take(limits));
  const int64_t begin_ns = connections_.clock().steady_ns();
  Result<std::vector<RespValue>> answers = lease->call_all(request, limits, room);
  report(answers.ok() ? status_of(*answers) : answers.status(), begin_ns);
  return answers;
}

void SharedServer::report(const Status& status, int64_t begin_ns) {
  const bool is_of_one_call = status.code() == ErrorCode::kLimitExceeded || status.code() == ErrorCode::kBadType;
  connections_.report(is_of_one_call ? Status() : status, connections_.clock().steady_ns() - begin_ns);
}

}  // namespace ibid::net
