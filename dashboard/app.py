"""Entry of the dashboard: `gpu-minutes dashboard` runs this file with Streamlit."""

from __future__ import annotations

import streamlit as st

from dashboard import frame

# The folder is not named `pages`: Streamlit would run its files on its own when a deep link is a server's first visit.
st.set_page_config(page_title="GPU Minutes", layout="wide", initial_sidebar_state="collapsed")
PAGES = [
    st.Page("views/overview.py", title="Overview", default=True),
    st.Page("views/incidents.py", title="Incidents", url_path="incidents"),
    st.Page("views/incident.py", title="Incident", url_path="incident", visibility="hidden"),
]
page = st.navigation(PAGES, position="top")
frame.begin(page.url_path)
page.run()
