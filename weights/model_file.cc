#include "weights/model_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "base/text.h"
#include "weights/gguf_format.h"
#include "weights/gguf_reader.h"
#include "weights/safetensors_header.h"
#include "weights/safetensors_reader.h"

namespace ibid {

Result<std::unique_ptr<ModelFile>> open_model_file(const std::string& path, const OpenOptions& options) {
  std::error_code ignored;  // ignored, because opening the path below reports the error more clearly
  if (std::filesystem::is_directory(path, ignored)) return SafetensorsModel::open_directory(path, options);
  TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  const Sniffed sniffed = sniff(file.bytes());
  if (sniffed.content == Content::kGguf) return GgufFile::open(std::move(file), options);
  // A damaged safetensors file goes to the safetensors parser, which reports the violated rule.
  const bool named_safetensors = path.ends_with(".safetensors") && sniffed.looks_like.empty();
  if (sniffed.content == Content::kSafetensors || (named_safetensors && file.bytes().size() > 8)) {
    return SafetensorsModel::open_file(std::move(file));
  }
  return wrong_content_error(file.bytes(), path, "a GGUF or safetensors file");
}

namespace {

struct Signature {
  std::string_view prefix;
  std::string_view what;
};

using namespace std::literals;

// Kinds of files that users download or name by mistake, each with a remedy.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file itself: fetch it with git lfs pull"},
    {"PK\x03\x04"sv, "a zip archive, such as PyTorch's .bin and .pt: convert it to safetensors"},
    {"\x80\x02"sv, "a Python pickle, which is never read: convert it to safetensors"},
    {"\x80\x03"sv, "a Python pickle, which is never read: convert it to safetensors"},
    {"\x80\x04"sv, "a Python pickle, which is never read: convert it to safetensors"},
    {"\x80\x05"sv, "a Python pickle, which is never read: convert it to safetensors"},
    {"lmgg"sv, "an old GGML file, the format before GGUF"},
    {"fmgg"sv, "an old GGML file, the format before GGUF"},
    {"tjgg"sv, "an old GGML file, the format before GGUF"},
    {"algg"sv, "an old GGML adapter, the format before GGUF"},
    {"FUGG"sv, "a GGUF file with its bytes swapped"},
    {"\x1f\x8b"sv, "a gzip archive: unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive: unpack it first"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"\0\0\0\0\0\0\0\0"sv, "an incomplete download: it begins with zeros"},
    {"{"sv, "JSON text: name the directory it is in"},
};

// True for llama.cpp's first format of importance matrices: a count, the length of a tensor name, and the name.
bool looks_like_importances(std::string_view text) {
  constexpr uint32_t kMostEntries = 1u << 20;
  uint32_t n = 0, length = 0;
  if (text.size() < 8) return false;
  std::memcpy(&n, text.data(), sizeof(n));
  std::memcpy(&length, text.data() + 4, sizeof(length));
  return n > 0 && n < kMostEntries && text.substr(8).size() >= length && text.substr(8, length).ends_with(".weight");
}

}  // namespace

Sniffed sniff(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 512));
  if (text.starts_with(kGgufMagic)) return {Content::kGguf, "a GGUF file"};
  if (text.size() > 8) {
    uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof(length));
    // Checked before the signatures, because the low bytes of the length may equal the first bytes of any signature.
    if (text[8] == '{' && length <= kSafetensorsMaxHeaderBytes) return {Content::kSafetensors, "a safetensors file"};
  }
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.prefix)) return {Content::kOther, signature.what};
  }
  const std::string_view words = trimmed(text);
  for (const std::string_view tag : {"<!doctype"sv, "<html"sv, "<?xml"sv, "<head"sv}) {
    if (starts_ignoring_case(words, tag)) {
      return {Content::kOther, "a web page, probably an error or login page saved as a model: download it again"};
    }
  }
  if (looks_like_importances(text)) {
    return {Content::kOther, "an importance matrix for quantisation: load the model itself"};
  }
  return {Content::kOther, ""};
}

Status wrong_content_error(std::span<const std::byte> file, const std::string& path, std::string_view wanted) {
  if (file.size() <= 8) {
    return {ErrorCode::kTruncated,
            path + ": has " + std::to_string(file.size()) + " bytes, too few for " + std::string(wanted)};
  }
  const Sniffed sniffed = sniff(file);
  if (!sniffed.looks_like.empty()) {
    return {ErrorCode::kBadMagic,
            path + ": is not " + std::string(wanted) + "; it looks like " + std::string(sniffed.looks_like)};
  }
  const std::string_view head(reinterpret_cast<const char*>(file.data()), 8);
  return {ErrorCode::kBadMagic, path + ": is not " + std::string(wanted) + "; it begins with " + in_quotes(head)};
}

Result<Sha256Digest> digest_of_files(std::span<const MappedFile> files, const std::stop_token& stop) {
  if (files.size() == 1) return files.front().digest(stop);
  std::vector<std::pair<std::string, std::string>> lines;  // name, digest
  for (const MappedFile& file : files) {
    TRY_ASSIGN(const Sha256Digest digest, file.digest(stop));
    lines.emplace_back(file.path().substr(file.path().rfind('/') + 1), to_hex(digest));
  }
  std::ranges::sort(lines);
  Sha256 hash;
  for (const auto& [name, digest] : lines) hash.update(digest + "  " + name + "\n");
  return hash.finish();
}

}  // namespace ibid
