// Requests to a hub, repeated as often as it takes: for a text, and for the rest of a file. After a cut the
// transfer goes on where it was. If a hub says that it is asked too often, the next request waits for as long as
// the hub says, up to a minute at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "apps/models/hub.h"
#include "apps/models/part_file.h"
#include "base/result.h"

namespace ibid {

struct HubAccess {
  std::string endpoint;   // "https://huggingface.co"; nothing else is asked but what it redirects to
  std::string token;      // for repositories that want one; for the endpoint alone
  std::string directory;  // where models are kept
  // Between attempts. Tests have no time to wait.
  std::function<void(double seconds)> wait;
  std::stop_token stop;   // ends what goes on; what has come is kept
};

// `what` names the thing in messages. Errors: kNotFound, kUnsupported (a token is wanted, or is not taken), kIo,
// kLimitExceeded, kCancelled.
Result<std::string> fetch_text(const HubAccess& access, const std::string& url, const std::string& what);

// Fetches what is missing of `part`; moved() is told how many bytes there are more, or, where all of it has to come
// again, less. Errors: as above, and kMismatch for a file that is longer or shorter than the hub said.
Status fetch_into(PartFile& part, const HubAccess& access, const HubFile& file, const std::string& url,
                  const std::function<void(int64_t bytes)>& moved);

}  // namespace ibid
