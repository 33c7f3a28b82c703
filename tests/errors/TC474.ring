publish <a/> <b/>
