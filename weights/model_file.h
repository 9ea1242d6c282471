// ModelFile: a model on disk behind one interface, whatever its container: metadata by key and tensors by
// name, validated before anything is allocated from a number in the file.
//
// It is not a model, and knows nothing of architectures. Names and keys are the container's own (GGUF:
// "blk.0.attn_q.weight", "llama.block_count"; safetensors: "model.layers.0.self_attn.q_proj.weight", and the keys
// of config.json, "hidden_size"). model/ translates.
//
// Owns its mappings: views and strings handed out live as long as the ModelFile. Immutable after open, so
// safe to read from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "base/tensor_view.h"

namespace ibid {

enum class Container { kGguf, kSafetensors };

class ModelFile {
 public:
  virtual ~ModelFile() = default;

  virtual Container container() const = 0;
  // The path that the user named: the .gguf file, or the directory.
  virtual const std::string& path() const = 0;

  // --- Metadata. Scalars are returned as what they are; a missing key is nullopt, a key of another type
  // is kBadType naming file, key, got and wanted. Any integer type of GGUF (signed or not) is accepted by
  // get_int where its value fits; get_float takes F32, F64 and integers; config.json likewise.
  virtual bool has(std::string_view key) const = 0;
  virtual Result<std::optional<int64_t>> get_int(std::string_view key) const = 0;
  virtual Result<std::optional<double>> get_float(std::string_view key) const = 0;
  virtual Result<std::optional<bool>> get_bool(std::string_view key) const = 0;
  virtual Result<std::optional<std::string_view>> get_string(std::string_view key) const = 0;
  // Arrays. Views of strings point into the mapping. get_ints takes BOOL of GGUF as 0 and 1.
  virtual Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const = 0;

  // safetensors: the whole of config.json; nullptr for GGUF.
  virtual const Json* config_json() const = 0;
  // The text of a file beside the weights ("tokenizer.json", "tokenizer_config.json",
  // "chat_template.jinja"), or in a folder there ("1_Pooling/config.json"); nullopt when it is not there. GGUF has
  // none, but for the metadata key tokenizer.huggingface.json, which answers to "tokenizer.json".
  virtual Result<std::optional<std::string>> companion(std::string_view name) const = 0;

  // --- Tensors.
  virtual const std::vector<std::string>& tensor_names() const = 0;        // in file order
  virtual const TensorView* find_tensor(std::string_view name) const = 0;  // nullptr: not there

  // Tells that the caller is done with a tensor's data, so its memory may be given back. Reading it again is slow,
  // not wrong.
  virtual void release(const TensorView& /*tensor*/) const {}

  // Everything in the metadata, as text for people (`ibid inspect`): key, type, value; long arrays cut.
  struct MetadataLine {
    std::string key, type, value;
  };
  virtual std::vector<MetadataLine> describe_metadata() const = 0;

  // Remarks that are no errors: trailing bytes, unused shards.
  virtual const std::vector<std::string>& warnings() const = 0;

  // kChangedOnDisk when a file under the mappings was truncated or replaced since open.
  virtual Status check_unchanged() const = 0;
  virtual uint64_t file_bytes() const = 0;  // sum over shards
};

struct OpenOptions {
  // Tensors need not be there: a directory with only tokenizer.json, a GGUF whose tensors are missing or of
  // types that are not read. GGUF tensors are then not looked at, and tensor_names() is empty.
  bool vocabulary_only = false;
  // Whether the weights of a directory may be symlinks, as in the hub's own cache. If not, symlinks are
  // kUnsafePath.
  bool follow_symlinks = true;
};

// Opens a .gguf file, a .safetensors file (with config.json beside it), or a directory that holds
// config.json and model.safetensors or model.safetensors.index.json. Sniffs the content, not the name.
Result<std::unique_ptr<ModelFile>> open_model_file(const std::string& path, const OpenOptions& options = {});

// Says what a file is by its first bytes, whatever its name says.

enum class Content { kGguf, kSafetensors, kOther };

struct Sniffed {
  Content content;
  std::string_view
      looks_like;  // kOther: "a Git LFS pointer, not the file itself"; empty when nothing is recognised
};

Sniffed sniff(std::span<const std::byte> file);

// The error for a file of another kind than the wanted one: kTruncated when it is too short
// to be anything, else kBadMagic that says what it looks like.
Status foreign_content_error(std::span<const std::byte> file, const std::string& path,
                             std::string_view wanted);

}  // namespace ibid
