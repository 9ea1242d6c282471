// What a server asks of its process before it has a client.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace ibid::serve {

// Nobody else's conversations in a core dump, nor for a debugger of the same user.
void forbid_core_dumps();

// Raises the number of files that may be open to all that is allowed. kLimitExceeded, with what to do: it is not enough
// for so many connections and what the process has open besides.
Status make_room_for_connections(size_t n_connections);

}  // namespace ibid::serve
