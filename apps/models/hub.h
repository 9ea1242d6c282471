// Models on a hub with the API of huggingface.co: the listing of a repository, and the selection of a model's files.
// Hub data is untrusted. Files with unsafe names are skipped; malformed sizes and checksums are errors before any
// download.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// The parts of "hf:OWNER/NAME", "hf:OWNER/NAME:FILE.gguf" or "hf:OWNER/NAME:Q4_K_M".
struct HubName {
  std::string owner;
  std::string name;
  std::string choice;  // a file or a quantisation; empty: selected automatically

  std::string repository() const { return owner + "/" + name; }
};
// Parses a name in one of the forms of HubName. Error: kInvalidArgument for another form, unsafe characters, and a name
// that begins with a dot or dash.
Result<HubName> parse_hub_name(std::string_view text);
bool is_hub_name(std::string_view text);

inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

struct HubFile {
  std::string path;  // path in the repository; relative, without ".." or hidden components
  uint64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits; empty: the hub has no digest, as for small files
};

struct HubListing {
  std::string revision;  // commit to which all files belong
  std::vector<HubFile> files;
};

// Parses the hub's description of a repository. Error: kBadHeader, naming the field.
Result<HubListing> parse_hub_listing(const Json& json);

// Selects the files of the model: one .gguf file, all parts of a split file, or a directory with config.json and
// safetensors. Errors: kNotFound and kInvalidArgument, listing the available choices.
Result<std::vector<HubFile>> choose_hub_files(const HubListing& listing, const HubName& name);

}  // namespace ibid
