// Whether a client has what was written to it. A write only hands bytes to the system: a client that has closed its
// socket by then never gets them, and one that sends no more may still read.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "server/http/reply.h"
#include "server/http/transport.h"

namespace ibid::http {

// Returns the state of a TCP socket, from its counters; kDone for other sockets, whose bytes go straight to the reader.
Delivery delivery_of(int socket);

// Looks until the client's system has acknowledged every byte, or has refused them; after `until` they count as lost.
// Tells `reply` if they are lost, and calls `then`. In callbacks of the transport, whose timer is used.
void watch_delivery(std::shared_ptr<Transport> transport, std::shared_ptr<Reply> reply,
                    std::chrono::steady_clock::time_point until, std::function<void()> then);

}  // namespace ibid::http
