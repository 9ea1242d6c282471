// Fetches the files of a model from a hub into the models directory, several at a time.
//
// A file is written to ".pull-..." beside its place, and renamed when its size and SHA-256 are what the hub says.
// So it is there whole or not at all. The bytes that came before a cut, a kill or Ctrl-C are not fetched again.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "apps/models/hub.h"
#include "apps/models/part_file.h"
#include "base/result.h"

namespace ibid {

// Requests are repeated as often as it takes. After a cut the transfer continues where it was. If a hub says that it is
// asked too often, the next request waits for as long as the hub says, up to a minute at a time.
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

// $HF_ENDPOINT, $HF_TOKEN and models_directory(). Errors: those of models_directory(); kInvalidArgument for an
// endpoint that is no https URL (http: of this machine alone, a token is not for others to read), and for a token that
// holds what no token has.
Result<HubAccess> hub_access(std::stop_token stop);

// Returns the path of the model: the .gguf file (the first part of a split one), or the directory. Each repository has
// a directory of its own in the models directory. A file that is there with the SHA-256 that the hub lists is not
// fetched again; one that an earlier revision of the repository had is replaced. Progress goes to standard error.
// Errors: kNotFound, kUnsupported (the hub wants a token, or does not take it), kIo (the network; no room, before
// anything is fetched), kMismatch (size or checksum), kDuplicate (another file has the name), kBusy (another process
// fetches it), kCancelled, those of parse_hub_name(), parse_hub_listing() and choose_hub_files().
Result<std::string> pull_from_hub(const HubAccess& access, const HubName& name);

}  // namespace ibid
