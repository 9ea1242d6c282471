#include "apps/models/hub.h"

#include <algorithm>
#include <optional>

#include "apps/command_line/command.h"

namespace ibid {

namespace {

constexpr std::string_view kScheme = "hf:";
constexpr size_t kMaxFiles = 10'000;
constexpr size_t kMaxPath = 512;
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// True for a path component without special meaning on any system.
bool is_plain(std::string_view part) {
  return !part.empty() && part.size() <= 255 && part.front() != '.' && part.front() != '-' &&
         std::all_of(part.begin(), part.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '+'; });
}

bool is_plain_path(std::string_view path) {
  if (path.size() > kMaxPath) return false;
  for (;;) {
    const size_t slash = path.find('/');
    if (!is_plain(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_hex(std::string_view text, size_t n) {
  return text.size() == n && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status bad_field(const std::string& field) {
  return {ErrorCode::kBadHeader, "the hub's description of the repository has an unknown form: '" + field + "'"};
}

Result<std::string> text_of(const Json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string()) return bad_field(field);
  return found->get<std::string>();
}

// Returns nullopt for files that are not part of a model, or whose path is unsafe.
Result<std::optional<HubFile>> file_of(const Json& json) {
  if (!json.is_object()) return bad_field("siblings");
  HubFile file;
  TRY_ASSIGN(file.path, text_of(json, "rfilename"));
  const bool of_use = file.path.ends_with(".gguf") || file.path.ends_with(".safetensors") ||
                      file.path.ends_with(".json") || file.path.ends_with(".jinja") || file.path.ends_with(".model");
  if (!of_use || !is_plain_path(file.path)) return std::optional<HubFile>();
  const Json* sized = &json;
  if (const auto lfs = json.find("lfs"); lfs != json.end() && lfs->is_object()) {
    sized = &*lfs;
    TRY_ASSIGN(file.sha256, text_of(*lfs, "sha256"));
    if (!is_hex(file.sha256, 64)) return bad_field("sha256");
  }
  const auto size = sized->find("size");
  const bool is_size = size != sized->end() && size->is_number_unsigned() && size->get<uint64_t>() <= kMaxBytes;
  if (!is_size) return bad_field("size");
  file.size = size->get<uint64_t>();
  return std::optional<HubFile>(std::move(file));
}

// The stem "a" and the number 2 of "a-00002-of-00003.gguf".
struct Part {
  std::string stem;
  std::string number;
};
std::optional<Part> part_of(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00001.gguf";
  if (path.size() <= kPattern.size() || !path.ends_with(".gguf")) return std::nullopt;
  const std::string tail = path.substr(path.size() - kPattern.size());
  for (size_t i = 0; i < tail.size(); ++i) {
    const bool digit = tail[i] >= '0' && tail[i] <= '9';
    const bool wants_digit = kPattern[i] == '0' || kPattern[i] == '1';
    if (wants_digit ? !digit : tail[i] != kPattern[i]) return std::nullopt;
  }
  return Part{path.substr(0, path.size() - kPattern.size()), tail.substr(1, 5)};
}

// True if the name contains the quantisation as a whole word: "Q4_K_M" in "x-Q4_K_M.gguf", but not "4_K".
bool has_tag(const std::string& path, const std::string& tag) {
  const std::string name = lower_case(base_name(path)), wanted = lower_case(tag);
  for (size_t i = name.find(wanted); i != std::string::npos; i = name.find(wanted, i + 1)) {
    const size_t end = i + wanted.size();
    const auto joins = [](char c) { return is_letter_or_digit(c) || c == '_'; };
    if ((i == 0 || !joins(name[i - 1])) && (end == name.size() || !joins(name[end]))) return true;
  }
  return false;
}

// Returns the GGUF models: single files, and the first parts of split files; without image projectors.
std::vector<HubFile> gguf_models(const HubListing& listing) {
  std::vector<HubFile> models;
  for (const HubFile& file : listing.files) {
    const std::optional<Part> part = part_of(file.path);
    const bool is_projector = lower_case(base_name(file.path)).find("mmproj") != std::string::npos;
    if (file.path.ends_with(".gguf") && !is_projector && (!part || part->number == "00001")) models.push_back(file);
  }
  return models;
}

std::vector<HubFile> with_parts(const HubListing& listing, const HubFile& first) {
  const std::optional<Part> part = part_of(first.path);
  if (!part) return {first};
  std::vector<HubFile> parts;
  for (const HubFile& file : listing.files) {
    const std::optional<Part> other = part_of(file.path);
    if (other && other->stem == part->stem) parts.push_back(file);
  }
  return parts;
}

// Returns the files of a Hugging Face directory: config.json, weights and tokenizer.
std::vector<HubFile> directory_files(const HubListing& listing) {
  std::vector<HubFile> files;
  bool has_config = false, has_weights = false;
  for (const HubFile& file : listing.files) {
    if (file.path.find('/') != std::string::npos || file.path.ends_with(".gguf")) continue;
    has_config = has_config || file.path == "config.json";
    has_weights = has_weights || file.path.ends_with(".safetensors");
    files.push_back(file);
  }
  return has_config && has_weights ? files : std::vector<HubFile>();
}

Status what_there_is(const HubName& name, const std::vector<HubFile>& models, const std::string& problem) {
  std::string message = "hf:" + name.repository() + problem;
  if (!models.empty()) message += ". Available:";
  for (const HubFile& model : models) message += "\n  hf:" + name.repository() + ":" + model.path;
  return {ErrorCode::kNotFound, message};
}

}  // namespace

bool is_hub_name(std::string_view text) { return lower_case(text.substr(0, kScheme.size())) == kScheme; }

Result<HubName> parse_hub_name(std::string_view text) {
  const Status wrong(ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                                      "' is not a name on a hub: expected hf:OWNER/NAME, "
                                                      "hf:OWNER/NAME:FILE.gguf or hf:OWNER/NAME:Q4_K_M");
  if (!is_hub_name(text)) return wrong;
  text.remove_prefix(kScheme.size());
  HubName name;
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    name.choice = text.substr(colon + 1);
    if (!is_plain_path(name.choice)) return wrong;
  }
  text = text.substr(0, colon);
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong;
  name.owner = text.substr(0, slash);
  name.name = text.substr(slash + 1);
  if (!is_plain(name.owner) || !is_plain(name.name)) return wrong;
  return name;
}

Result<HubListing> parse_hub_listing(const Json& json) {
  if (!json.is_object()) return bad_field("(the whole)");
  HubListing listing;
  TRY_ASSIGN(listing.revision, text_of(json, "sha"));
  if (!is_hex(listing.revision, 40)) return bad_field("sha");
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array() || siblings->size() > kMaxFiles) return bad_field("siblings");
  for (const Json& sibling : *siblings) {
    TRY_ASSIGN(std::optional<HubFile> file, file_of(sibling));
    if (file) listing.files.push_back(*std::move(file));
  }
  return listing;
}

Result<std::vector<HubFile>> choose_hub_files(const HubListing& listing, const HubName& name) {
  std::vector<HubFile> models = gguf_models(listing);
  if (models.empty() && name.choice.empty()) {
    std::vector<HubFile> files = directory_files(listing);
    if (files.empty()) return what_there_is(name, {}, " holds neither a .gguf file nor config.json with safetensors");
    return files;
  }
  std::vector<HubFile> meant;
  for (const HubFile& model : models) {
    const bool is_file = model.path == name.choice || base_name(model.path) == name.choice;
    if (name.choice.empty() || is_file || has_tag(model.path, name.choice)) meant.push_back(model);
  }
  if (meant.empty()) return what_there_is(name, models, " has no '" + name.choice + "'");
  if (meant.size() > 1 && name.choice.empty()) {
    // If several quantisations are available, select the most common one.
    const auto usual =
        std::find_if(meant.begin(), meant.end(), [](const HubFile& file) { return has_tag(file.path, "Q4_K_M"); });
    if (usual != meant.end()) meant = {*usual};
  }
  if (meant.size() > 1) return what_there_is(name, meant, " holds several models; name one");
  return with_parts(listing, meant.front());
}

}  // namespace ibid
