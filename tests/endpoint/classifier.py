"""What MLServer serves in the tests: an ONNX file behind its own preprocessing, by Pillow.

Runs in MLServer's own environment (mlserver, onnxruntime, pillow), not in alignkit's.
"""

import io
import os
import signal

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceResponse
from PIL import Image, UnidentifiedImageError


class Classifier(MLModel):
    """``files`` (BYTES) or ``images`` (FP32) → ``logits``; the settings' extra holds the rest."""

    async def load(self) -> bool:
        own = self.settings.parameters
        self.session = onnxruntime.InferenceSession(own.uri, providers=["CPUExecutionProvider"])
        self.size = own.extra["size"]
        self.mean = np.array(own.extra["mean"], np.float32)
        self.std = np.array(own.extra["std"], np.float32)
        self.asked = 0
        return True

    async def predict(self, payload):
        (given,) = payload.inputs
        self.asked += 1
        if self.asked == self.settings.parameters.extra["ends_at"]:  # killed or stopped, for real
            os.kill(os.getpid(), signal.Signals[self.settings.parameters.extra["ends_by"]])
        if given.datatype == "BYTES":
            batch = np.stack([self.prepared(each) for each in self.decode(given)])
        else:
            batch = NumpyCodec.decode_input(given).astype(np.float32)
        (logits,) = self.session.run(None, {self.session.get_inputs()[0].name: batch})
        output = NumpyCodec.encode_output("logits", logits)
        return InferenceResponse(model_name=self.name, outputs=[output])

    def prepared(self, file: bytes) -> np.ndarray:
        try:
            image = Image.open(io.BytesIO(file)).convert("RGB")
        except UnidentifiedImageError as error:
            raise InferenceError(f"no image: {error}") from error
        resized = np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR))
        return ((resized / np.float32(255) - self.mean) / self.std).transpose(2, 0, 1)
