// Fetches the files of a model from a hub into the models directory, several at a time.
//
// A file is written to ".pull-..." beside its place, and renamed when its size and SHA-256 are what the hub says.
// So it is there whole or not at all. What came before a cut, a kill or Ctrl-C is not fetched again.
#pragma once

#include <stop_token>
#include <string>

#include "apps/models/hub.h"
#include "apps/models/hub_fetch.h"
#include "base/result.h"

namespace ibid {

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
