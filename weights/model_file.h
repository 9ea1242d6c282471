// ModelFile: a model on disk, independent of its container: metadata by key and tensors by name. All of them are
// validated before any number from the file is used for an allocation.
//
// Does not depend on architectures: names and keys are the container's own (GGUF: "blk.0.attn_q.weight",
// "llama.block_count"; safetensors: "model.layers.0.self_attn.q_proj.weight", and config.json's "hidden_size"). model/
// translates them.
//
// Owns its mappings: views and strings are valid as long as the ModelFile. Immutable after opening, so thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "base/sha256.h"
#include "base/tensor_view.h"

namespace ibid {

enum class Container { kGguf, kSafetensors };

class ModelFile {
 public:
  virtual ~ModelFile() = default;

  virtual Container container() const = 0;
  // The path that the user named: the .gguf file, or the directory.
  virtual const std::string& path() const = 0;

  // --- Metadata. Scalars keep their type. A missing key is nullopt; a key of another type is kBadType, with file, key,
  // actual and expected type. get_int accepts any integer type whose value fits; get_float accepts F32, F64 and
  // integers; get_bool accepts GGUF's integers 0 and 1. The same rules apply to config.json.
  virtual bool has(std::string_view key) const = 0;
  virtual Result<std::optional<int64_t>> get_int(std::string_view key) const = 0;
  virtual Result<std::optional<double>> get_float(std::string_view key) const = 0;
  virtual Result<std::optional<bool>> get_bool(std::string_view key) const = 0;
  virtual Result<std::optional<std::string_view>> get_string(std::string_view key) const = 0;
  // Arrays. String views point into the mapping. get_ints converts GGUF's BOOL to 0 and 1.
  virtual Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const = 0;

  // The whole config.json of safetensors; nullptr for GGUF.
  virtual const Json* config_json() const = 0;
  // Returns the text of a file in the folder of the weights ("tokenizer.json", "tokenizer_config.json",
  // "chat_template.jinja") or in a folder below it ("1_Pooling/config.json"); nullopt if absent. GGUF has only
  // "tokenizer.json", from the metadata key tokenizer.huggingface.json.
  virtual Result<std::optional<std::string>> companion(std::string_view name) const = 0;

  // --- Tensors.
  virtual const std::vector<std::string>& tensor_names() const = 0;        // in file order
  virtual const TensorView* find_tensor(std::string_view name) const = 0;  // returns nullptr if the tensor is absent

  // Hints that the caller no longer needs the tensor's data, so that the memory of the data may be freed. Later reads
  // are correct, but slow.
  virtual void release(const TensorView& /*tensor*/) const {}

  // A key of the metadata, with type and value as text for display (`ibid inspect`); long arrays are truncated.
  struct MetadataLine {
    std::string key, type, value;
  };
  virtual std::vector<MetadataLine> describe_metadata() const = 0;

  // Problems that are not errors: trailing bytes, unused shards.
  virtual const std::vector<std::string>& warnings() const = 0;

  // Error: kChangedOnDisk if a mapped file was truncated or modified after it was opened.
  virtual Status check_unchanged() const = 0;
  virtual uint64_t file_bytes() const = 0;  // sum over all files

  // Identifies the weights: the SHA-256 of the file, as sha256sum prints it. Of several files (parts, shards): the
  // SHA-256 of the lines that sha256sum prints for their names in ascending order. Reads all files once. Errors: those
  // of MappedFile::digest().
  virtual Result<Sha256Digest> digest(const std::stop_token& stop) const = 0;
};

struct OpenOptions {
  // For tools that need only the tokenizer: accepts a directory with only tokenizer.json, and a GGUF whose tensors are
  // missing or of unsupported types. GGUF tensors are then not read, and tensor_names() is empty.
  bool vocabulary_only = false;
  // If false, weights in a directory that are symlinks cause kUnsafePath. If true, they are followed, because the hub's
  // own cache consists of symlinks.
  bool follow_symlinks = true;
};

// Opens a .gguf file, a .safetensors file (with config.json beside it), or a directory that contains config.json and
// model.safetensors or model.safetensors.index.json. Detects the format by content, not by name.
Result<std::unique_ptr<ModelFile>> open_model_file(const std::string& path, const OpenOptions& options = {});

// ModelFile::digest() of these files.
Result<Sha256Digest> digest_of_files(std::span<const MappedFile> files, const std::stop_token& stop);

// Detects the type of a file by its first bytes, ignoring its name.

enum class Content { kGguf, kSafetensors, kOther };

struct Sniffed {
  Content content;
  std::string_view looks_like;  // if kOther: "a Git LFS pointer, not the file itself"; empty: not recognised
};

Sniffed sniff(std::span<const std::byte> file);

// Returns the error for a file that does not have the `wanted` content: kTruncated if the file is too short to decide,
// else kBadMagic, saying what the file looks like.
Status wrong_content_error(std::span<const std::byte> file, const std::string& path, std::string_view wanted);

}  // namespace ibid
