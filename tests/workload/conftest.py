import pytest

from railweave.catalog import default_catalog


@pytest.fixture(scope="session")
def catalog():
    return default_catalog()


@pytest.fixture(scope="session")
def shape(catalog):
    return catalog.model("llama3-8b")
