// Fetches the files of a model from a hub into the models directory.
//
// A file comes into ".pull-..." beside its place and is renamed there when its size and SHA-256 are what the hub says:
// it is there whole or not at all. What came before a cut, a kill or Ctrl-C is not fetched again. A hub that is
// asked too often is waited for as long as it says, up to a minute at a time.
#pragma once

#include <functional>
#include <string>

#include "apps/models/hub.h"
#include "base/result.h"

namespace ibid {

struct HubAccess {
  std::string endpoint;  // "https://huggingface.co"; nothing else is asked but what it redirects to
  std::string token;     // for repositories that want one; for the endpoint alone
  std::string directory; // where models are kept
  // Between attempts. Tests have no time to wait.
  std::function<void(double seconds)> wait;
};
// $HF_ENDPOINT, $HF_TOKEN and models_directory(). Errors: those of models_directory(); kInvalidArgument for an
// endpoint that is no URL.
Result<HubAccess> hub_access();

// Returns the path of the model: the .gguf file (the first part of a split one), or the directory. Does nothing for
// what is there already with the size that the hub says. Progress goes to standard error.
// Errors: kNotFound, kUnsupported (the hub wants a token, or does not take it), kIo (the network, no room),
// kMismatch (size or checksum), kDuplicate (another file has the name), kBusy (another process fetches it), those of
// parse_hub_listing() and choose_hub_files().
Result<std::string> pull_from_hub(const HubAccess& access, const HubName& name);

}  // namespace ibid
