// Models on a hub that speaks the API of huggingface.co: what a repository holds, and which of its files are a model.
//
// What a hub says comes from outside. Files whose names are no plain paths are left out, and malformed sizes and
// checksums are errors before anything is fetched.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// "hf:OWNER/NAME", "hf:OWNER/NAME:FILE.gguf", "hf:OWNER/NAME:Q4_K_M".
struct HubName {
  std::string owner;
  std::string name;
  std::string choice;  // a file, or a quantisation; empty: what there is

  std::string repository() const { return owner + "/" + name; }
};
// kInvalidArgument for anything else: letters, digits and -_. only, and no name of dots.
Result<HubName> parse_hub_name(std::string_view text);
bool is_hub_name(std::string_view text);

// The last part of a path in a repository.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

struct HubFile {
  std::string path;    // in the repository; plain, relative, without ".."
  uint64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits; empty: the hub knows none (small files)
};

struct HubListing {
  std::string revision;  // the commit: all files are of one
  std::vector<HubFile> files;
};

// Reads what the hub says of a repository. Error: kBadHeader naming the field.
Result<HubListing> parse_hub_listing(const Json& json);

// The files of the model that is meant: one .gguf file, all parts of a split one, or the files of a directory with
// config.json and safetensors. Errors: kNotFound and kInvalidArgument, with what there is.
Result<std::vector<HubFile>> choose_hub_files(const HubListing& listing, const HubName& name);

}  // namespace ibid
