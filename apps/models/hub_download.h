// Downloads the files of a model from a hub into the models directory, several in parallel.
//
// A file is written to ".pull-..." in its target directory and renamed when size and SHA-256 match the hub's, so it is
// either complete or missing. Bytes received before an interruption are not downloaded again.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "apps/models/hub.h"
#include "apps/models/part_file.h"
#include "base/result.h"

namespace ibid {

// Access to a hub. A failed request is retried, and an interrupted transfer resumes at its offset. After a status 429
// the next request waits as long as the hub demands, at most a minute at a time.
struct HubAccess {
  std::string endpoint;   // "https://huggingface.co"; only this host and its redirects are contacted
  std::string token;      // token for private repositories; sent to the endpoint only
  std::string directory;  // the models directory
  // Waits between attempts; tests replace this function.
  std::function<void(double seconds)> wait;
  std::stop_token stop;  // cancels requests; bytes already received stay in the part file
};

// Downloads a small text. `what` names the text in errors. Errors: kNotFound, kUnsupported (a token is missing or
// rejected), kIo, kLimitExceeded, kCancelled.
Result<std::string> fetch_text(const HubAccess& access, const std::string& url, const std::string& what);

// Downloads the missing bytes of `part`. moved(change) reports each change of the number of bytes, which is negative if
// the download restarts. Errors: those of fetch_text(); kMismatch if the size differs from the size in the hub's
// listing.
Status fetch_into(PartFile& part, const HubAccess& access, const HubFile& file, const std::string& url,
                  const std::function<void(int64_t bytes)>& moved);

// Reads $HF_ENDPOINT, $HF_TOKEN and models_directory(). Errors: those of models_directory(); kInvalidArgument for a
// malformed token, and for an endpoint that is not https (http is allowed for this machine only, to protect the token).
Result<HubAccess> hub_access(std::stop_token stop);

// Downloads a model and returns its path: the .gguf file (or its first part, if it is split), or the directory. Each
// repository has its own directory in the models directory. A file with the SHA-256 of the hub is not downloaded again;
// a file of an earlier revision is replaced. Progress is shown on standard error. Errors: kNotFound, kUnsupported (a
// token is missing or rejected), kIo (network; no disk space, before the download), kMismatch (size or checksum),
// kDuplicate (another file has the name), kBusy (another process downloads it), kCancelled, those of parse_hub_name(),
// parse_hub_listing() and choose_hub_files().
Result<std::string> pull_from_hub(const HubAccess& access, const HubName& name);

}  // namespace ibid
