#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace stretto {

/// A classifier of images into the 1,000 classes of ImageNet, as it was published, without weights. Float32.
class ImageNetwork : public torch::nn::Module {
 public:
  /// The training loss of a batch, a mean over its images. `images`: [image][3][side][side]; `labels`: [image], int64.
  virtual at::Tensor loss(const at::Tensor& images, const at::Tensor& labels) = 0;
};

/// One of these networks, and how it is made. Nothing here trains them: their graphs are what is looked at, which are
/// the same for images of any size.
struct NetworkInfo {
  std::string_view name;
  std::int64_t parameters = 0;  ///< trained numbers
  std::int64_t side = 0;        ///< pixels of an image along a side, at least
  /// The weights are drawn by Torch.
  std::shared_ptr<ImageNetwork> (*make)() = nullptr;
};

/// ResNet-18, -34, -50, -101 and -152, AlexNet, GoogLeNet, Inception-v3 and VGG16, as torchvision has them: GoogLeNet
/// without the auxiliary heads, Inception-v3 with its one.
std::span<const NetworkInfo> image_networks();

std::shared_ptr<ImageNetwork> make_resnet18();
std::shared_ptr<ImageNetwork> make_resnet34();
std::shared_ptr<ImageNetwork> make_resnet50();
std::shared_ptr<ImageNetwork> make_resnet101();
std::shared_ptr<ImageNetwork> make_resnet152();
std::shared_ptr<ImageNetwork> make_alexnet();
std::shared_ptr<ImageNetwork> make_googlenet();
std::shared_ptr<ImageNetwork> make_inception_v3();
std::shared_ptr<ImageNetwork> make_vgg16();

}  // namespace stretto
