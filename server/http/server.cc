#include "server/http/server.h"

#include <utility>

#include "base/text.h"
#include "server/http/connection.h"
#include "server/http/network.h"
#include "server/http/server_room.h"

namespace ibid::http {

namespace {

// The response to a client if no connection can be evicted for it.
constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

void turn_away(const std::shared_ptr<Transport>& transport) {
  transport->post([transport] {
    transport->write(kFull, [transport](bool, size_t) {
      transport->end_writing();
      transport->close();
    });
  });
}

Status check_options(const ServerOptions& options) {
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return {ErrorCode::kInvalidArgument, "TLS needs both a certificate and its key: --cert FILE --key FILE"};
  }
  if (options.address.empty() && options.unix_socket.empty()) {
    return {ErrorCode::kInvalidArgument, "no address to listen on: give --host or --unix"};
  }
  return {};
}

// Returns the addresses of "a,b" without blanks.
std::vector<std::string> addresses_of(const ServerOptions& options) {
  std::vector<std::string> addresses;
  if (options.address.empty()) return addresses;
  for_each_piece(options.address, ',', [&](std::string_view address) {
    addresses.emplace_back(trimmed(address));
    return false;
  });
  return addresses;
}

Result<std::vector<ListeningSocket>> open_sockets(const ServerOptions& options) {
  std::vector<ListeningSocket> sockets;
  for (const std::string& address : addresses_of(options)) {
    const uint16_t port = sockets.empty() ? options.port : sockets.front().port();
    TRY_ASSIGN(std::vector<ListeningSocket> opened, ListeningSocket::open_tcp(address, port));
    for (ListeningSocket& socket : opened) sockets.push_back(std::move(socket));
  }
  for (const ListeningSocket& socket : sockets) {
    if (!socket.is_reachable_from_outside() || options.insecure || !options.api_keys.empty()) continue;
    return {ErrorCode::kInvalidArgument, options.address +
                                             " can be reached from other machines without an API key; give one "
                                             "(--api-key-file FILE, or IBID_API_KEY), or use --insecure"};
  }
  if (!options.unix_socket.empty()) {
    TRY_ASSIGN(ListeningSocket local, ListeningSocket::open_unix(options.unix_socket));
    sockets.push_back(std::move(local));
  }
  return sockets;
}

}  // namespace

struct Server::Parts {
  std::unique_ptr<Network> network;
  std::shared_ptr<ServerRoom> room;
  uint16_t port = 0;
  std::string url;
  bool is_stopped = false;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::listen(ServerOptions options, Router router, ErrorBody error_body) {
  TRY(check_options(options));
  auto parts = std::make_unique<Parts>();
  TRY_ASSIGN(parts->network, Network::create({.n_threads = options.n_threads,
                                              .certificate_file = options.certificate_file,
                                              .key_file = options.key_file}));
  TRY_ASSIGN(std::vector<ListeningSocket> sockets, open_sockets(options));
  if (!options.address.empty()) {
    parts->port = sockets.front().port();
    const std::string address = addresses_of(options).front();
    const bool is_v6 = address.find(':') != std::string::npos;
    parts->url = options.certificate_file.empty() ? "http://" : "https://";
    parts->url += is_v6 ? "[" + address + "]" : address;
    parts->url += ":" + std::to_string(parts->port);
  } else {
    parts->url = "unix:" + options.unix_socket;
  }
  const bool has_room = guarded([&] {
    RequestFilter filter(
        {.allowed_hosts = options.allowed_hosts, .allowed_origins = options.allowed_origins, .port = parts->port},
        options.api_keys, std::move(router));
    parts->room = std::make_shared<ServerRoom>(options, std::move(filter), std::move(error_body));
  });
  if (!has_room) return {ErrorCode::kOutOfMemory, "cannot create threads"};
  for (ListeningSocket& socket : sockets) {
    const auto on_client = [room = parts->room](const std::shared_ptr<Transport>& transport) {
      guarded([&] {
        const auto connection = std::make_shared<Connection>(transport, room);
        if (room->is_closing || !room->connections.add(connection)) return turn_away(transport);
        connection->start();
      });
    };
    parts->network->serve(std::move(socket), on_client, [room = parts->room] { room->connections.make_room(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

uint16_t Server::port() const { return parts_->port; }

std::string Server::url() const { return parts_->url; }

ServerStats Server::stats() const {
  const ServerRoom& room = *parts_->room;
  return {.n_connections = room.connections.n_ever(),
          .n_open = room.connections.n_open(),
          .n_exchanges = room.exchanges.n(),
          .n_requests = room.n_requests,
          .n_refused = room.n_refused,
          .n_slow_clients = *room.n_slow_clients};
}

void Server::stop_listening() {
  parts_->room->is_closing = true;
  parts_->network->stop_listening();
  parts_->room->connections.for_each([](Connection& connection) { connection.close_when_idle(); });
}

bool Server::wait_until_quiet(std::chrono::milliseconds limit) { return parts_->room->exchanges.wait_for_none(limit); }

void Server::cancel_exchanges() {
  parts_->room->connections.for_each([](Connection& connection) { connection.cancel_exchange(); });
}

void Server::stop() {
  if (parts_->is_stopped) return;
  parts_->is_stopped = true;
  ServerRoom& room = *parts_->room;
  stop_listening();
  room.connections.for_each([](Connection& connection) { connection.end(); });
  room.connections.wait_until_empty();
  room.workers.stop();
  parts_->network->stop();
}

}  // namespace ibid::http
