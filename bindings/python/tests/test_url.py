"""URLs without libsafetensors-http. (tests/http opens them with it.)

SPDX-License-Identifier: Apache-2.0
"""
import os

import pytest

from safetensors_c import numpy as mine


@pytest.mark.skipif(os.name != "posix", reason="there is no libsafetensors-http for it")
@pytest.mark.parametrize("url", ["https://example.com/m.safetensors", "hf://owner/model", "http://example.com/m?sig=topsecret"])
def test_url_without_its_library_says_what_is_missing(ours, monkeypatch, url):
    monkeypatch.setenv("SAFETENSORS_C_HTTP_LIBRARY", "/absent/libsafetensors-http.so.0")
    for read in (lambda: ours.safe_open(url, "np"), lambda: mine.load_file(url, http=ours.HttpOptions())):
        with pytest.raises(ImportError) as error:
            read()
        for part in ("libsafetensors-http", "/absent/", "-DST_BUILD_HTTP=ON", "SAFETENSORS_C_HTTP_LIBRARY"):
            assert part in str(error.value)
        assert "topsecret" not in str(error.value)
