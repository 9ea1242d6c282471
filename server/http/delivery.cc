#include "server/http/delivery.h"

// Not with netinet/tcp.h, whose tcp_info has no counters of bytes.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>

namespace ibid::http {

namespace {

constexpr std::chrono::milliseconds kDeliveryLookTime{10};

}  // namespace

Delivery delivery_of(int socket) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return Delivery::kDone;
  if (length < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans)) return Delivery::kDone;
  const bool is_all_sent = info.tcpi_notsent_bytes == 0;
  if (is_all_sent && info.tcpi_bytes_acked + info.tcpi_bytes_retrans >= info.tcpi_bytes_sent) return Delivery::kDone;
  constexpr int kClosed = 7;  // TCP_CLOSE, which netinet/tcp.h alone defines: the client's system has refused bytes
  return info.tcpi_state == kClosed ? Delivery::kLost : Delivery::kUnderWay;
}

void watch_delivery(std::shared_ptr<Transport> transport, std::shared_ptr<Reply> reply,
                    std::chrono::steady_clock::time_point until, std::function<void()> then) {
  const Delivery delivery = transport->delivery();
  const auto now = std::chrono::steady_clock::now();
  if (delivery == Delivery::kUnderWay && now < until) {
    const auto look_again = [transport, reply, until, then] { watch_delivery(transport, reply, until, then); };
    return transport->wake_at(now + kDeliveryLookTime, look_again);
  }
  if (delivery != Delivery::kDone) reply->lose_bytes();
  then();
}

}  // namespace ibid::http
